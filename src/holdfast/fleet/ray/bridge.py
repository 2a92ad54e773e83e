"""The bridge: one process of this user that is connected to a Ray cluster, for every command of
his. The only owner of `ray`, which takes seconds to load and to connect.

A command hands over its stdin, stdout and stderr, and says what it wants; the bridge serves it in a
thread, and ends when nobody has come for a while. Ray's calls may wait for ever: each has a limit.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import socket
import sys
import threading
import time
from typing import Any
from uuid import uuid4

from holdfast.fleet.ray import desk as desk_module
from holdfast.fleet.ray.words import NOT_REACHED, TAKEN

_NAMESPACE = "holdfast"
_IDLE_SECONDS = 60.0
_ANSWER_SECONDS = 15.0  # of a desk, over what it may wait itself
_DESK_SECONDS = 60.0  # a worker of Ray is started for it
_LONGEST_REQUEST = 1 << 16
_READ_BYTES = 1 << 16
_REMOVED = "REMOVED"

Json = dict[str, Any]


class BridgeError(Exception):
    """What to tell the command that asked: a kind that its placer knows, and a text."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Cluster:
    """Ray, and what is asked of it."""

    def __init__(self, address: str) -> None:
        self.ray: Any = importlib.import_module("ray")
        self._groups: Any = importlib.import_module("ray.util.placement_group")
        importlib.import_module("ray.cloudpickle").register_pickle_by_value(desk_module)
        self.ray.init(
            address=address,
            namespace=_NAMESPACE,
            log_to_driver=False,
            logging_level="ERROR",
        )

    def get(self, reference: Any, seconds: float = _ANSWER_SECONDS) -> Any:
        """A result; BridgeError when there is none in time, or its node is dead."""
        errors = self.ray.exceptions
        try:
            return self.ray.get(reference, timeout=seconds)
        except errors.GetTimeoutError:
            raise BridgeError("silent", "its desk does not answer") from None
        except errors.RayActorError as error:
            first = str(error).strip().splitlines()[0]
            raise BridgeError("silent", f"its desk is gone: {first}") from None
        except errors.RayTaskError as error:
            raise BridgeError("silent", f"its desk failed: {error.cause!r}") from None

    # Nodes

    def nodes(self) -> list[Json]:
        """Those that Ray says are alive."""
        return [one for one in self.ray.nodes() if one["Alive"]]

    def named(self, name: str) -> Json:
        """A node by its id, host name or address."""
        for one in self.nodes():
            if name in (one["NodeManagerHostname"], one["NodeManagerAddress"], one["NodeID"]):
                return one
        raise BridgeError("no_node", f"Ray has no node {name} that is alive")

    def desk(self, ray_node: str, asked: Json) -> Any:
        """The desk of a node; made if there is none."""
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        return (
            self.ray.remote(desk_module.Desk)
            .options(
                name=f"desk-{ray_node}-{asked['way']}",
                namespace=_NAMESPACE,
                get_if_exists=True,
                lifetime="detached",
                max_restarts=-1,
                max_task_retries=0,
                num_cpus=0,
                scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(ray_node, soft=False),
            )
            .remote(asked["command"], asked["home"], ray_node)
        )

    def find(self, asked: Json) -> Any:
        """The desk of the bound node, also when that has joined Ray again under another id."""
        bound = asked["bound"]
        alive = self.nodes()
        for one in alive:
            if one["NodeID"] == bound.get("ray_node"):
                return self.desk(one["NodeID"], asked)
        for one in alive:
            if one["NodeManagerHostname"] == bound.get("host"):
                found = self.desk(one["NodeID"], asked)
                if self.get(found.node.remote(), _DESK_SECONDS)["node"] == bound.get("node"):
                    return found
        if bound.get("ray_node"):
            raise BridgeError("silent", f"Ray has no node of {bound.get('host')} that is alive")
        return self.desk(self._anyone(asked)["NodeID"], asked)

    def _anyone(self, asked: Json) -> Json:
        if asked.get("target"):
            return self.named(asked["target"])
        for one in self.nodes():
            if one["Resources"].get("CPU"):
                return one
        raise BridgeError("no_node", "no node of Ray is alive that has a CPU")

    # Groups

    def reserve(self, asked: Json) -> Json:
        """A group of that name, which is made once; where it was placed."""
        only = self._only(asked)
        more = {"bundle_label_selector": [{"ray.io/node-id": only}]} if only else {}
        try:
            group = self._groups.placement_group(
                [asked["bundle"]], name=asked["name"], lifetime="detached", **more
            )
        except Exception as error:
            if "already exists" not in str(error):
                raise
            group = self.ray.util.get_placement_group(asked["name"])
        if not group.wait(asked["seconds"]):
            self.ray.util.remove_placement_group(group)
            raise BridgeError("no_room", f"Ray has no room for {_shown(asked['bundle'])}")
        shown = self._groups.placement_group_table(group)
        ray_node = shown["bundles_to_node_id"][0]
        node: Json = next((one for one in self.ray.nodes() if one["NodeID"] == ray_node), {})
        return {
            "group": group.id.hex(),
            "name": asked["name"],
            "ray_node": ray_node,
            "host": node.get("NodeManagerHostname", ""),
        }

    def _only(self, asked: Json) -> str:
        """The one node where it may be, if that is said."""
        if asked.get("on_node"):
            for one in self.nodes():
                if one["NodeManagerHostname"] == asked["on_host"]:
                    desk = self.desk(one["NodeID"], asked)
                    if self.get(desk.node.remote(), _DESK_SECONDS)["node"] == asked["on_node"]:
                        return str(one["NodeID"])
            raise BridgeError("silent", f"Ray has no node of {asked['on_host']} that is alive")
        return str(self.named(asked["target"])["NodeID"]) if asked.get("target") else ""

    def look(self, asked: Json) -> Json:
        """What Ray says of a group and of its node."""
        bound = asked["bound"]
        every = self.ray.nodes()
        hosts = {one["NodeID"]: one["NodeManagerHostname"] for one in every}
        is_alive = any(one["Alive"] for one in every if one["NodeID"] == bound["ray_node"])
        shown = self._groups.placement_group_table().get(bound["group"], {})
        places = list(shown.get("bundles_to_node_id", {}).values())
        return {
            "state": shown.get("state") or _REMOVED,
            "host": hosts.get(places[0], places[0]) if places else None,
            "is_alive": is_alive,
        }

    def cancel(self, asked: Json) -> Json:
        """Give a group back; one that is gone is as good."""
        shown = self._groups.placement_group_table().get(asked["bound"]["group"])
        if shown is not None and shown["state"] != _REMOVED:
            self.ray.util.remove_placement_group(
                self.ray.util.get_placement_group(asked["bound"]["name"])
            )
        return {}

    def check(self, _asked: Json) -> Json:
        """For `fleet check`."""
        names = [one["NodeManagerHostname"] for one in self.nodes()]
        return {"version": self.ray.__version__, "nodes": names}


def _shown(bundle: Json) -> str:
    return ", ".join(f"{value:g} {name}" for name, value in bundle.items())


class BridgeClient:
    """A command that asked: its descriptors, and the socket by which it is told the end."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        data, self.fds, _, _ = socket.recv_fds(connection, _LONGEST_REQUEST, 3)
        if len(self.fds) != 3:
            raise OSError("a command that is gone")
        self.asked: Json = json.loads(data)
        connection.send(TAKEN)

    def say(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.fds[fd], view) :]

    def end(self, code: int) -> None:
        for fd in self.fds:
            os.close(fd)
        try:
            self.connection.send(json.dumps({"code": code}).encode())
        except OSError:
            pass  # it is gone: nobody is to be told
        self.connection.close()

    def serve(self, cluster: Cluster) -> int:
        """What it wants; its exit code."""
        do = self.asked["do"]
        try:
            if do == "session":
                return DeskSession(cluster, self).run()
            answer = getattr(cluster, do)(self.asked)
            self.say(1, json.dumps(answer).encode())
            return 0
        except BridgeError as error:
            if do != "session":
                self.say(1, json.dumps({"kind": error.kind, "message": str(error)}).encode())
                return 1
            self.complain(str(error))
            return NOT_REACHED

    def complain(self, text: str) -> None:
        try:
            self.say(2, f"{text}\n".encode())
        except OSError:
            pass  # nobody reads it


class DeskSession:
    """A command of a node's holdfast, with the descriptors of one that is here."""

    def __init__(self, cluster: Cluster, client: BridgeClient) -> None:
        self._get = cluster.get
        self._client = client
        self._desk = cluster.find(client.asked)
        self._token = uuid4().hex
        self._has_gone = False  # the command that asked
        self._wake, self._waker = os.pipe()

    def run(self) -> int:
        asked = self._client.asked
        opening = self._desk.open.remote(
            self._token, asked["words"], asked.get("size"), asked.get("term", "")
        )
        self._get(opening, _DESK_SECONDS)
        pump = threading.Thread(target=self._pump, daemon=True)
        pump.start()
        try:
            return self._read()
        except BridgeError:
            if self._has_gone:
                return NOT_REACHED
            raise
        finally:
            os.close(self._waker)
            pump.join()
            os.close(self._wake)
            self._desk.close.remote(self._token)

    def _read(self) -> int:
        limit = desk_module.READ_SECONDS + _ANSWER_SECONDS
        while True:
            pieces, code = self._get(self._desk.read.remote(self._token), limit)
            for fd, data in pieces:
                try:
                    self._client.say(fd, data)
                except BrokenPipeError:
                    return NOT_REACHED  # the command does not read any more
            if code is not None:
                return int(code)

    def _pump(self) -> None:
        """Its stdin goes to the node, until either ends."""
        stdin, ours = self._client.fds[0], self._client.connection.fileno()
        watched = {stdin, ours, self._wake}
        while True:
            ready = _ready(watched)
            if self._wake in ready:
                return
            try:
                if ours in ready and not self._follow():
                    self._has_gone = True
                    self._desk.close.remote(self._token)
                    return
                if stdin in ready:
                    data = os.read(stdin, _READ_BYTES)
                    self._get(self._desk.write.remote(self._token, data, not data))
                    if not data:
                        watched.discard(stdin)
            except (BridgeError, OSError):
                return  # the reading side tells why

    def _follow(self) -> bool:
        """What the command says meanwhile: another size of its terminal. False: it is gone."""
        data = self._client.connection.recv(_LONGEST_REQUEST)
        if not data:
            return False
        self._get(self._desk.resize.remote(self._token, json.loads(data)["size"]))
        return True


def _ready(fds: set[int], seconds: float | None = None) -> set[int]:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000)}


class Bridge:
    """Serves commands until no more come, or Ray can't be reached."""

    def __init__(self, listening: socket.socket, address: str) -> None:
        self._listening = listening
        self._address = address
        self._cluster: Cluster | None = None
        self._lock = threading.Lock()
        self._busy = 0
        self._is_spoilt = False

    def run(self) -> None:
        idle_since = time.monotonic()
        while not self._is_spoilt or self._busy:
            if _ready({self._listening.fileno()}, 1.0) and not self._is_spoilt:
                connection, _ = self._listening.accept()
                self._count(1)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            if self._busy:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _IDLE_SECONDS:
                return

    def _count(self, change: int) -> None:
        with self._lock:
            self._busy += change

    def _serve(self, connection: socket.socket) -> None:
        try:
            client = BridgeClient(connection)
        except (OSError, ValueError):
            connection.close()
            self._count(-1)
            return
        code = NOT_REACHED
        try:
            code = client.serve(self._connected())
        except Exception as error:  # noqa: BLE001 - any error of Ray: told, and begun anew
            self._is_spoilt = True
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            client.complain(f"Ray at {self._address}: {first}")
        finally:
            client.end(code)
            self._count(-1)

    def _connected(self) -> Cluster:
        with self._lock:
            if self._cluster is None:
                self._cluster = Cluster(self._address)
            return self._cluster


def main(words: list[str]) -> None:
    """`bridge FD ADDRESS`: a listening socket that it was given."""
    Bridge(socket.socket(fileno=int(words[0])), words[1]).run()
    sys.stderr.flush()
    os._exit(0)  # Ray's own farewell takes seconds, and nothing here needs it


if __name__ == "__main__":
    main(sys.argv[1:])
