from __future__ import annotations

import copy
import pickle

import pytest

from holdfast.record import Record


class Point(Record):
    x: int
    y: int = 0
    label: str | None = None


class Point3(Point):
    z: int = 9


class Other(Record):
    x: int
    y: int = 0
    label: str | None = None


def test_fields_are_given_by_position_or_name_and_defaults_fill_the_rest():
    assert Point(1, 2, "a").as_dict() == {"x": 1, "y": 2, "label": "a"}
    assert Point(1, label="a") == Point(x=1, y=0, label="a")
    assert Point3(1).as_dict() == {"x": 1, "y": 0, "label": None, "z": 9}


@pytest.mark.parametrize(
    ("values", "named", "says"),
    [
        ((), {}, "Point lacks x"),
        ((1, 2, 3, 4), {}, "Point takes 3 values"),
        ((1,), {"x": 2}, "unexpected value for 'x'"),
        ((1,), {"w": 2}, "unexpected value for 'w'"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(values, named, says):
    with pytest.raises(TypeError, match=says):
        Point(*values, **named)


def test_a_record_can_not_be_changed():
    point = Point(1)
    with pytest.raises(AttributeError, match="Point is frozen: x"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="Point is frozen: x"):
        del point.x
    with pytest.raises(AttributeError, match="frozen"):
        point.unheard_of = 1
    assert point.x == 1


def test_equality_and_hash_are_by_type_and_value():
    assert Point(1) == Point(1)
    assert Point(1) != Point(2)
    assert Point(1) != Other(1)
    assert Point(1) != Point3(1)
    assert len({Point(1), Point(1), Other(1), Point3(1)}) == 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point([]))  # type: ignore[arg-type]


def test_repr_is_the_call_that_makes_it():
    assert repr(Point(1, label="a b")) == "Point(x=1, y=0, label='a b')"


def test_replace_changes_a_copy_and_refuses_unknown_names():
    point = Point(1)
    assert point.replace(y=5) == Point(1, 5)
    assert point == Point(1)
    with pytest.raises(TypeError, match="'w'"):
        point.replace(w=1)


def test_as_dict_keeps_nested_records():
    inner = Point(1)
    outer = Other(1).replace(label=inner)
    assert outer.as_dict()["label"] is inner


def test_a_record_pickles_and_copies():
    point = Point3(1, 2, "a")
    assert pickle.loads(pickle.dumps(point)) == point
    assert copy.copy(point) == point
    assert copy.deepcopy(point) == point


def test_private_annotations_are_not_fields():
    class Cached(Record):
        value: int
        _seen: int = 0

    assert Cached._fields == ("value",)
    assert Cached(1).as_dict() == {"value": 1}


def test_a_subclass_may_give_an_inherited_field_a_default():
    class Origin(Point):
        x: int = 0

    assert Origin().x == 0
    assert Origin._fields == ("y", "label", "x")
