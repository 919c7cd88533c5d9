"""The interest of a node: the filters and policies of its subscribers, told to each other node.

Receivers with the same filter and policy are a *class* with a number; all receivers without a policy are one
class, whatever their filters. The text of a policy is told once, then its hash.

Changes have versions. A change is valid only for the version before it; a new link begins with all filters.
So a node that was restarted, or that missed something, has either exactly the interest of the other one or
none.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from penstock import limits
from penstock.core.cluster.frames import Wants
from penstock.errors import ClusterError, PolicyError
from penstock.policy.text.forms import parse, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.policy.nodes import Policy


class ReceiverClass(NamedTuple):
    """Receivers of one node with the same filter and the same policy."""

    number: int
    filter: str
    """Empty for the class of receivers without a policy, which have many filters."""
    policy: str
    """Hash of the policy's text; empty: no policy."""
    text: str = ""


def canonical(policy: Policy) -> tuple[str, str]:
    """The hash of a policy, and its text in the form that nodes tell each other."""
    text = to_json(policy, compact=True)
    return blake2b(text.encode(), digest_size=16).hexdigest(), text


class OwnInterest:
    """The interest of this node, as one other node is told of it."""

    def __init__(self, filters: Iterable[str] = ()) -> None:
        self._filters: dict[str, None] = dict.fromkeys(filters)
        self._changed: dict[str, bool] = {}
        """Filters that have begun or ended since the other node was last told."""
        self._classes: dict[int, ReceiverClass] = {}
        self._began: dict[int, None] = {}
        self._ended: dict[int, bool] = {}
        """Classes that have ended since then, and whether their receivers are in others."""
        self._plain = 0
        self._plain_told = 0
        self._known: set[str] = set()
        """Policies that the other node has the text of: those of the classes it was last told."""
        self._version = 0

    def __len__(self) -> int:
        return len(self._filters)

    @property
    def pending(self) -> bool:
        """Whether the other node must be told something."""
        return (
            not self._version
            or bool(self._changed or self._began or self._ended)
            or self._plain != self._plain_told
        )

    def change(self, filter_: str, *, wanted: bool) -> None:
        """A filter has its first receiver without a policy, or has lost its last one.

        What begins and ends before it is told is not told.
        """
        if wanted == (filter_ in self._filters):
            return
        if wanted:
            self._filters[filter_] = None
        else:
            del self._filters[filter_]
        if self._changed.get(filter_) is (not wanted):
            del self._changed[filter_]
        else:
            self._changed[filter_] = wanted

    def begin(self, receivers: ReceiverClass) -> None:
        """A class of receivers with a policy has begun."""
        self._classes[receivers.number] = receivers
        self._began[receivers.number] = None

    def end(self, number: int, *, moved: bool) -> None:
        """A class has ended; `moved`: its receivers are in other classes now."""
        del self._classes[number]
        if number in self._began:
            del self._began[number]
        else:
            self._ended[number] = moved

    def renew_plain(self, number: int) -> None:
        """The class of receivers without a policy has another number: receivers have left it or come to it
        with something waiting for them elsewhere."""
        self._plain = number

    def told(self) -> Wants:
        """The interest to tell the other node now: all of it the first time, then the changes."""
        first = not self._version
        self._version += 1
        changed, self._changed = self._changed, {}
        ended, self._ended = self._ended, {}
        began = [self._classes[number] for number in (self._classes if first else self._began)]
        self._began = {}
        moved = [number for number, is_moved in ended.items() if is_moved]
        if self._plain != self._plain_told and not first:
            moved.append(self._plain_told)
        self._plain_told = self._plain
        texts = {one.policy: one.text for one in began if one.policy not in self._known}
        self._known = {one.policy for one in self._classes.values()}
        return Wants(
            self._version,
            first,
            list(self._filters) if first else [filter_ for filter_, wanted in changed.items() if wanted],
            [] if first else [filter_ for filter_, wanted in changed.items() if not wanted],
            [(one.number, one.filter, one.policy) for one in began],
            [] if first else [number for number, is_moved in ended.items() if not is_moved],
            [] if first else moved,
            list(texts.items()),
            self._plain,
        )


class Behind(NamedTuple):
    """The receivers behind one filter of another node."""

    plain: bool
    """Whether some have no policy."""
    classes: tuple[ReceiverClass, ...] = ()


class PeerInterest:
    """The interest of another node, as it has told it."""

    def __init__(self) -> None:
        self.filters: dict[str, Behind] = {}
        self.classes: dict[int, ReceiverClass] = {}
        """Classes with a policy."""
        self.policies: dict[str, Policy] = {}
        self.plain = 0
        """Number of the class of receivers without a policy."""
        self._version = 0

    @property
    def known(self) -> bool:
        """Whether the other node has said anything."""
        return self._version > 0

    def receivers(self) -> Iterator[tuple[str, str]]:
        """The filters, each with the text of a policy behind it; empty: receivers without one."""
        for filter_, behind in self.filters.items():
            if behind.plain:
                yield filter_, ""
            for each in behind.classes:
                yield filter_, canonical(self.policies[each.policy])[1]

    def presume(self, filters: Iterable[str]) -> None:
        """Take it that a node which was started anew wants what it did before, until it says what it does."""
        self.filters = dict.fromkeys(filters, _PLAIN)

    def apply(self, wants: Wants) -> tuple[list[str], list[str]]:
        """Take a change; returns the filters that are new and those that have ended.

        ClusterError, and nothing changes, if it does not follow what came before or is too much.
        """
        if not wants.full and wants.version != self._version + 1:
            raise ClusterError(f"interest of version {wants.version} follows version {self._version}")
        if wants.full and wants.version <= self._version:
            raise ClusterError(f"interest of version {wants.version} comes after version {self._version}")
        policies = self._policies(wants)
        classes = self._classes(wants, policies)
        plain = {} if wants.full else {name: None for name, one in self.filters.items() if one.plain}
        for filter_ in wants.removed:
            plain.pop(filter_, None)
        plain.update(dict.fromkeys(wants.added))
        after = self._behind(plain, classes)
        if len(after) > limits.CLUSTER_FILTERS:
            raise ClusterError(f"interest in {len(after)} filters; at most {limits.CLUSTER_FILTERS}")
        added = [filter_ for filter_ in after if filter_ not in self.filters]
        removed = [filter_ for filter_ in self.filters if filter_ not in after]
        used = {one.policy for one in classes.values()}
        self.filters, self.classes, self.plain = after, classes, wants.plain
        self.policies = {name: policy for name, policy in policies.items() if name in used}
        self._version = wants.version
        return added, removed

    def _policies(self, wants: Wants) -> dict[str, Policy]:
        found = {} if wants.full else dict(self.policies)
        size = 0
        for name, text in wants.policies:
            size += len(text)
            if size > limits.CLUSTER_POLICIES_BYTES:
                raise ClusterError(f"policies of more than {limits.CLUSTER_POLICIES_BYTES} bytes")
            try:
                policy = parse(text, source=f"policy {name[:32]}")
            except PolicyError as error:
                raise ClusterError(f"interest with a policy that is none: {error}") from None
            if blake2b(text.encode(), digest_size=16).hexdigest() != name:
                raise ClusterError(f"interest with a policy whose hash is not {name[:32]!r}")
            found[name] = policy
        return found

    def _classes(self, wants: Wants, policies: dict[str, Policy]) -> dict[int, ReceiverClass]:
        found = {} if wants.full else dict(self.classes)
        for number in (*wants.ended, *wants.moved):
            found.pop(number, None)
        for number, filter_, policy in wants.began:
            if number in found or number in self.classes or number == wants.plain:
                raise ClusterError(f"interest with two classes of number {number}")
            if policy not in policies:
                raise ClusterError(f"interest with the policy {policy[:32]!r}, whose text was not told")
            found[number] = ReceiverClass(number, filter_, policy)
        if len(found) > limits.CLUSTER_CLASSES:
            raise ClusterError(
                f"interest of {len(found)} classes of receivers; at most {limits.CLUSTER_CLASSES}"
            )
        return found

    @staticmethod
    def _behind(plain: dict[str, None], classes: dict[int, ReceiverClass]) -> dict[str, Behind]:
        found = dict.fromkeys(plain, _PLAIN)
        for one in classes.values():
            before = found.get(one.filter, _NOBODY)
            found[one.filter] = Behind(before.plain, (*before.classes, one))
        return found


_PLAIN = Behind(plain=True)
_NOBODY = Behind(plain=False)
