"""The screen of `top` as an SVG picture, in the colours of a light or a dark terminal."""

from __future__ import annotations

from html import escape

from rich.color import Color
from rich.style import Style
from textual.strip import Strip

from holdfast.manage.plaintext import width

_CELL, _LINE, _MARGIN = 8.4, 18, 8
_FONT = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14"'
# Black, red, green, yellow, blue, magenta, cyan, white; then background and foreground.
PALETTES = {
    "dark": "#2e3436 #ef6b73 #8ccf7e #e5c76b #67b0e8 #c47fd5 #6cbfbf #b3b9b8 #141b1e #dadada",
    "light": "#2e3436 #b4232a #2f7d1f #8a6100 #1f5fa8 #8a3f9c #0f7276 #8a8f8e #ffffff #1f2328",
}


def picture(strips: list[Strip], palette: str, columns: int) -> str:
    """The lines one below the other; nothing in it depends on the time or the machine."""
    colours = PALETTES[palette].split()
    wide, high = columns * _CELL + 2 * _MARGIN, len(strips) * _LINE + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high}" {_FONT}>',
        f'<rect width="100%" height="100%" rx="6" fill="{colours[8]}"/>',
    ]
    for row, strip in enumerate(strips):
        lines += _line(strip, _MARGIN + row * _LINE, colours)
    return "\n".join([*lines, "</svg>", ""])


def _line(strip: Strip, top: int, colours: list[str]) -> list[str]:
    parts, column = [], 0
    for text, given, _ in strip:
        taken = width(text)
        at, style = _MARGIN + column * _CELL, given or Style.null()
        column += taken
        ink, paper = _colour(style.color, colours, 9), _colour(style.bgcolor, colours, 8)
        if style.reverse:
            ink, paper = paper, ink
        if paper != colours[8]:
            size = f'x="{at:.1f}" y="{top}" width="{taken * _CELL:.1f}" height="{_LINE}"'
            parts.append(f'<rect {size} fill="{paper}"/>')
        if text.strip():
            parts.append(_text(text, style, at, top, ink))
    return parts


def _text(text: str, style: Style, at: float, top: int, ink: str) -> str:
    bare = text.rstrip()
    at += (width(bare) - width(bare.lstrip())) * _CELL
    bare = bare.lstrip()
    looks = ' font-weight="bold"' if style.bold else ""
    looks += ' opacity="0.6"' if style.dim else ""
    looks += ' text-decoration="line-through"' if style.strike else ""
    length = f'textLength="{width(bare) * _CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
    where = f'x="{at:.1f}" y="{top + _LINE - 5}"'
    return f'<text {where} {length} fill="{ink}" xml:space="preserve"{looks}>{escape(bare)}</text>'


def _colour(colour: Color | None, colours: list[str], default: int) -> str:
    number = None if colour is None or colour.is_default else colour.number
    return colours[default] if number is None else colours[number % 8]
