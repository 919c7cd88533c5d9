"""Every bound in one place, each with the reason for its number."""

from __future__ import annotations

from typing import Final

# -- policies: they arrive inside SUBSCRIBE packets from strangers -------------------------------------------

POLICY_BYTES: Final = 65_535
"""A policy must fit into one MQTT user property, whose length field has 16 bits."""

POLICY_LEVELS: Final = 32
"""The paper's largest policy has 6 levels; a ladder of 32 rungs is climbed in one request at most."""

POLICY_FILTERS: Final = 64
"""Filters of all levels together: bounds the work of one pack to 64 walks over the queue."""

POLICY_DEPTH: Final = 16
"""Nesting of the text (YAML, JSON, XML): the language itself needs 6."""

SET_VALUES: Final = 4_096
"""Members of an `inset`, `first`, `subset` … list; together they also stay below POLICY_BYTES."""

PATTERN_BYTES: Final = 1_024
"""Length of a `match` pattern; RE2's compiled program stays below PATTERN_MEMORY."""

PATTERN_MEMORY: Final = 1 << 20
"""RE2 memory per pattern in bytes: `(((a{100}){100}){100})` is refused instead of compiled."""

TEXT_PARAMETER: Final = 4_096
"""Length of one text parameter, of a policy's name or of its description, in characters."""

PATH_SEGMENTS: Final = 16
"""Depth of an attribute path."""

PATH_CHARACTERS: Final = 256
"""Length of an attribute path."""

DIGESTERS: Final = 64
"""(attribute, digester) pairs in one policy: bounds the size of a digest."""

# -- payloads: decoded only when a queue packs ---------------------------------------------------------------

DECODE_BYTES: Final = 65_536
"""Payloads above this are not decoded (their attributes are missing): bounds the work of one pack."""

LIST_VALUES: Final = 4_096
"""Elements of a list attribute that are looked at; a longer list is unreadable."""

# -- digests: they arrive from other nodes -------------------------------------------------------------------

DIGEST_BYTES: Final = 1 << 20
"""A digest of DIGESTERS sketches of 5 KB each, with room."""

DIGEST_CAUSES: Final = 512
"""Different (level, filter) causes one digest can carry: several policies along the path. Of more, the last
in order are counted together as `other`."""

DIGEST_COUNT: Final = 1 << 48
"""Events a digest from another node may stand for: nine years of a million a second. Sums of 32,768 such
counts still fit the 63 bits of the wire."""

MARK_CHARACTERS: Final = 1_024
"""A digest's `first` and `last` carry so much of a text: DIGESTERS of them stay below DIGEST_BYTES."""

# -- queues --------------------------------------------------------------------------------------------------

QUEUE_EVENTS: Final = 1_000
"""Default capacity of a queue in items: the size measured in the fast-path study."""

QUEUE_BYTES: Final = 8 << 20
"""Default capacity of a queue in bytes."""

QUEUE_EVENTS_LEAST: Final = 3
"""The newest event with a digest before and behind it: below this a digest would block the queue."""

CONTROL_ITEMS: Final = 1_024
"""Control items are never dropped, so they are bounded by refusing the connection that makes more."""

HEADROOM: Final = 0.02
"""Share of the capacity a pack must free, else it climbs: so an arriving event pays for about 50 items looked
at per filter, at most (99 where rounding leaves one place free)."""

PACK_RECORDS: Final = 1_024
"""Packs a queue remembers until its owner takes the records; older ones are only counted."""

RECEIVERS_PER_LINK: Final = 65_536
"""Receivers sharing one link's queue: a split makes one private queue each."""

DRAIN_LEAST: Final = 1 / 3_600
"""Slowest drain of a replayed queue, in items or bytes a second: one an hour. A slower one is a mistake."""

DRAIN_MOST: Final = 10**12
"""Fastest drain, in items or bytes a second: a terabyte a second, beyond any link."""

# -- Spark ---------------------------------------------------------------------------------------------------

JAVA_LEAST: Final = 17
"""The oldest Java that Spark 4 starts on."""

GENERATED_EVENTS: Final = 10**11
"""Events of a generated stream: a few terabytes; one more digit is a slip of the finger."""

GENERATED_SOURCES: Final = 10**7
"""Patients, vehicles, access points of a generated stream."""

GENERATED_RATE: Final = 10**9
"""Events per second of a generated stream: beyond it, times of one microsecond would hold thousands."""

GENERATED_END_US: Final = 9_214_646_400 * 10**6
"""Generated streams end before 2262, where times in nanoseconds, which many readers use, leave 64 bits."""

GENERATED_PARTS_LEAST: Final = 2
"""Files of a generated stream: two cores have something to do."""

CAMPUS_SECONDS: Final = 14 * 86_400
"""Length of a campus trace: a table with a row per second is made on the driver, 30 MB for a fortnight."""

# -- MQTT: what a stranger's packet may ask for --------------------------------------------------------------

MQTT_PACKET_BYTES: Final = 1 << 20
"""Default maximum packet size: sixteen times the largest policy; a thousand half-received packets stay below
the memory of a small machine."""

MQTT_TOPIC_LEVELS: Final = 128
"""Levels of a topic or a filter: bounds the depth of a walk through the trees. The longest in use have 20."""

MQTT_USER_PROPERTIES: Final = 256
"""User properties in one packet; a packet of MQTT_PACKET_BYTES could carry 200,000."""

MQTT_FILTERS: Final = 1_024
"""Filters in one SUBSCRIBE or UNSUBSCRIBE; a packet of MQTT_PACKET_BYTES could carry 260,000."""

MQTT_SUBSCRIPTIONS: Final = 10_000
"""Default number of subscriptions one session may hold."""

MQTT_RECEIVE_MAXIMUM: Final = 1_024
"""Default number of unanswered QoS 1 and 2 messages a peer may send: of 100 bytes each, 100 KB in flight."""

MQTT_TOPIC_ALIASES: Final = 32
"""Default number of topic aliases in each direction: 32 topics of 64 KB at worst, per connection."""

MQTT_CONNECT_S: Final = 10
"""A connection that has not sent its CONNECT after this is closed: ten slow round trips."""

MQTT_REASON_CHARACTERS: Final = 1_024
"""A reason string quotes the peer's own text, which may have 64 KB; so much says what is wrong."""

CONNECT_S: Final = 5
"""How long a server may take to accept a connection, in seconds."""

# -- the window into the node: HTTP requests, dashboards, metrics --------------------------------------------

HTTP_BODY_BYTES: Final = 1 << 18
"""Body of a request: four times the largest policy, since JSON may write a character as six."""

HTTP_CONNECTIONS: Final = 256
"""Open HTTP connections: a browser opens six, so forty people look at once."""

HTTP_HEAD_S: Final = 10
"""The head of a connection's first request must arrive within ten slow round trips."""

HTTP_HEAD_BYTES: Final = 1 << 15
"""Head of a request: browsers send 1 KB, the names of a client and a filter may have 65,535 bytes in theory
and a hundred in practice."""

HTTP_LIVE_STREAMS: Final = 32
"""Dashboards and `penstock top` that follow at once; all get the same bytes."""

HTTP_STALL_S: Final = 30
"""A viewer whose connection takes nothing for so long is let go."""

HTTP_ROWS: Final = 1_000
"""Rows in one answer; the next ones are asked for with `offset`."""

HTTP_FRESH_S: Final = 0.1
"""Answers within this time share one look at the node: asking a thousand times a second costs ten looks."""

HTTP_TRIES: Final = 4
"""Policies tried on live traffic at once: each holds up to HTTP_TRY_BYTES."""

HTTP_TRY_EVENTS: Final = 10_000
"""Events a policy is tried on: ten queues of the default size."""

HTTP_TRY_BYTES: Final = 32 << 20
"""Bytes of the events a policy is tried on."""

HTTP_TRY_S: Final = 60
"""Longest time to wait for events to try a policy on."""

HTTP_TRY_ITEMS: Final = 200
"""Items of the packed queue that are shown: more is not read by people."""

LIVE_CLIENTS: Final = 100
"""Clients in the live view, those furthest behind first; the others are asked for by name."""

LIVE_SUBSCRIPTIONS: Final = 8
"""Subscriptions per client in the live view, those furthest behind first."""

HISTORY_SAMPLES: Final = 600
"""Ten minutes, one sample a second."""

HISTORY_SUBSCRIPTIONS: Final = 500
"""Subscriptions with a history, those that were behind last: with HISTORY_SAMPLES of 64 bytes, 20 MB."""

METRICS_SLOWEST: Final = 20
"""Subscriptions with metrics of their own: Prometheus keeps every label it ever saw."""

METRICS_STREAMS: Final = 100
"""Streams, and neighbours, with metrics of their own; the totals count all."""

# -- the gate: strangers who try passwords and topics --------------------------------------------------------

GATE_THREADS: Final = 2
"""Passwords checked at the same time: each takes 64 MB and 0.2 s of processor time."""

GATE_WAITING: Final = 200
"""Passwords waiting to be checked: two cores check ten a second, and clients give up after some 20 s."""

GATE_REMEMBERED: Final = 10_000
"""Users whose right password is remembered by its keyed hash, of 64 bytes."""

GATE_FAILURES: Final = 10
"""Wrong passwords an address may give in GATE_FAILURES_S: a person's typing errors, not a search."""

GATE_FAILURES_S: Final = 60
"""See GATE_FAILURES."""

GATE_ADDRESSES: Final = 65_536
"""Addresses whose rate is known: some 10 MB."""

ARGON2_KIB: Final = 1 << 20
"""Memory of one password check that a hash may ask for, in KiB: 1 GiB; argon2's default is 64 MiB."""

ARGON2_ROUNDS: Final = 64
"""Rounds of one password check that a hash may ask for; argon2's default is 3."""

ACL_CLIENTS: Final = 10_000
"""Clients whose view of the access list is kept; then all are made anew."""

ACL_DECISIONS: Final = 1_000
"""Decisions remembered for one client; then they are made anew."""

# -- the node's configuration --------------------------------------------------------------------------------

CONFIG_BYTES: Final = 4 << 20
"""A configuration file: 60 policies of the largest size written out, or 20,000 users."""

CONFIG_PROBLEMS: Final = 20
"""Problems of one configuration that are told; more would not be read."""

# -- the broker: what it holds for clients that are slow, away or many ---------------------------------------

FIRM_EVENTS: Final = 100_000
"""QoS 1 and 2 messages that wait for a subscription without a policy: a day of one a second; some 50 MB."""

FIRM_BYTES: Final = 64 << 20
"""Bytes of the same."""

RUN_BYTES: Final = 16_384
"""Bytes forwarded as one piece: what a stalled receiver takes in beyond its transport's buffer."""

FLUSH_BYTES: Final = 32_768
"""Bytes collected for a connection before they are written at once: a stalled client then swallows some 160
KB, 1,500 events of 100 bytes, most of it in the kernel."""

SLOW_PAUSE_US: Final = 50_000
"""A client whose transport takes nothing for longer is on a slow link; its buffers are made small."""

FAST_PAUSE_US: Final = 5_000
"""One with small buffers whose transport is empty again sooner is not, any more."""

SLOW_FLUSH_BYTES: Final = 2_048
"""Bytes written at once to a client on a slow link, and asked for as its socket's buffer (the kernel has a
least of its own): at 50 kbit/s some 3 s less between the policy and the receiver."""

SEND_BUFFER_BYTES: Final = 1 << 20
"""Asked for when a client is fast again; the kernel gives what it allows."""

DRAIN_ITEMS: Final = 64
"""Items taken from a queue at a time: the transport is asked whether it takes more after so many."""

UNSENT_BYTES: Final = 1 << 20
"""Answers that wait for a client which does not read them; then it is not read from either."""

UNSENT_LOWAT: Final = 16_384
"""TCP_NOTSENT_LOWAT: what the kernel takes beyond the receiver's window. Without it a stalled client
swallowed 38,800 events, at no gain in throughput."""

ROUTES: Final = 65_536
"""Topics whose receivers are remembered."""

INLINE_POLICIES: Final = 1_000
"""Policies in SUBSCRIBE packets that are remembered compiled."""

JOURNAL_ROWS: Final = 200_000
"""Rows that may wait for the disk; beyond it QoS 1 and 2 messages for kept sessions are refused."""

JOURNAL_DROPS: Final = 1_000
"""Oldest events a queue drops before the store hears of it: finding out costs a look at the whole queue."""

JOURNAL_RETRY_S: Final = 1.0
"""Between attempts to write when the disk is full or gone."""

LATENCY_SAMPLES: Final = 256
"""Of one subscription: enough for a 99th percentile."""

PROPERTY_SETS: Final = 4_096
"""Sets of properties remembered decoded, of at most PROPERTY_BYTES: publishers repeat theirs."""

PROPERTY_BYTES: Final = 256
"""See PROPERTY_SETS."""

# -- listeners -----------------------------------------------------------------------------------------------

LISTEN_BACKLOG: Final = 4_096
"""Connections the kernel holds until we take them: clients that all come back at once. Linux's own bound."""

TLS_SHUTDOWN_S: Final = 2
"""How long a TLS peer may take to say goodbye; a silent one would keep its socket for 30 s."""

WEBSOCKET_HANDSHAKES: Final = 1_000
"""Connections at one listener that are not WebSockets yet; one more sends away the oldest of them."""

WEBSOCKET_SPARE_BYTES: Final = 1 << 16
"""A WebSocket message may be larger than the largest packet by this: the packets before it."""

# -- the client ----------------------------------------------------------------------------------------------

CLIENT_WRITE_BYTES: Final = 1 << 16
"""What a client's transport holds before messages wait in the client's own buffer, where a policy reaches."""

CLIENT_UNCLAIMED: Final = 1_000
"""Messages of a resumed session that came before the program subscribed again."""

CLIENT_KEEP_S: Final = 60
"""How long a node keeps a client's session by default: a change of network, not a night."""

CLIENT_CLOSE_S: Final = 10
"""How long a closing client waits for what is still to be sent and acknowledged."""

RECONNECT_LEAST_S: Final = 0.5
"""First pause before connecting again; it doubles with each failure."""

RECONNECT_MOST_S: Final = 30
"""Longest pause before connecting again: a thousand clients then ask a node 33 times a second."""

# -- the recorder --------------------------------------------------------------------------------------------

RECORD_GROUP: Final = 10_000
"""Events written to a file at once: one row group, some 1 MB."""

RECORD_LATEST_S: Final = 1.0
"""Events wait for so long, at most, until their row group is written."""

RECORD_BYTES: Final = 64 << 20
"""Bytes of events that may wait for the disk, beside the configured number of them."""

RECORD_SPARE_BYTES: Final = 16 << 20
"""Space on the disk that recording leaves: for the end of the file that is being written, and for others."""

RECORD_RETRY_S: Final = 5.0
"""Between attempts to write when the disk is full or gone."""

# -- web channels --------------------------------------------------------------------------------------------

URL_CHARS: Final = 2_048
"""Longest URL of a channel: what browsers and proxies have agreed on for twenty years."""

CHANNEL_IDLE_S: Final = 86_400
"""A channel that nobody wants any more is remembered so long: clients that come back see what changed."""

PARTIAL_ITEMS: Final = 500
"""Items of a feed that is sent in parts: those beyond it count as aged."""

CHANNEL_WRITE_S: Final = 2.0
"""Between writes of what is known about channels; changes themselves are written at once."""

CHANNEL_SETTLE_S: Final = 2.0
"""Who subscribes is answered when that is on disk, or after so long."""

CHANNEL_CLOSE_S: Final = 5.0
"""A node that ends waits so long for changes to be written and told; the rest follows after its start."""

ALLOCATE_SOON_S: Final = 1.0
"""Least time between two allocations: many subscriptions that come together cause one."""

ALLOCATE_SHARE: Final = 0.02
"""Of the event loop's time that allocating may take: with many channels it is done less often."""

CONTRAST_PAUSE_S: Final = 5.0
"""Between looks for a page to be fetched twice at once: 12 a minute at most."""

CONTRAST_AGAIN_S: Final = 600
"""A page is fetched twice at once no more often than this; noise must be seen twice to be believed."""

VALIDATOR_CHARS: Final = 1_024
"""Of an ETag or a Last-Modified that is kept and sent back: real ones have 20 to 80."""

PROBLEM_CHARS: Final = 500
"""Of the sentence that says what is wrong with a channel."""

POLL_ERRORS: Final = 1_000_000
"""Errors in a row are counted up to here."""

POLL_LATEST_US: Final = 31 * 86_400 * 1_000_000
"""Nobody waits longer for a poll: servers, feeds and settings may ask for less."""

POLL_FULL_US: Final = 7 * 86_400 * 1_000_000
"""A body is asked for at least so often, whatever validators say: some servers answer 304 for ever."""

POLL_SKIP_US: Final = 72 * 3_600 * 1_000_000
"""A feed may be quiet for a long weekend; skipHours and skipDays that say more are a mistake."""

REDIRECTS: Final = 10
"""Followed in one fetch: robots.txt needs 5 (RFC 9309, 2.3.1.2), browsers follow 20."""

MOVED_ERRORS: Final = 5
"""Errors in a row after which the address a page has moved to is forgotten, and the old one asked again."""

ROBOTS_BYTES: Final = 512 << 10
"""Of a robots.txt that are read: RFC 9309, 2.5, wants 500 KiB at least."""

ROBOTS_FILES: Final = 1_000
"""robots.txt kept parsed; the verdict is kept with each channel, so that more hosts cost no more fetches."""

BOMB_RATIO: Final = 200
"""A body that grows more than so many times when decompressed is refused; lists and tables reach 50, gzip
itself 1,032."""

BOMB_SPARE_BYTES: Final = 1 << 20
"""Decompressed bytes before the ratio is looked at: a small page of one repeated line harms nobody."""

REDIRECT_BODY_BYTES: Final = 1 << 16
"""Of the body of a redirect that are read so that the connection can be used again."""

RESOLVER_THREADS: Final = 16
"""Names looked up at the same time; each may take the resolver's 10 s."""

POLLER_SLEEP_S: Final = 5.0
"""Longest sleep of a poller: by then it notices that the clock was set."""

CLOCK_JUMP_US: Final = 1_000_000
"""A clock that goes off by more was set; less is the clock's own drift."""

CRAWL_DELAY_US: Final = 600 * 1_000_000
"""Longest Crawl-delay that is kept to: more is meant for crawlers that fetch every page of a site."""

# -- flows ---------------------------------------------------------------------------------------------------

FLOWS_DECLARED: Final = 100
"""Periods told by one CONNECT: a gateway with so many kinds of sensors."""

FLOW_REFUSALS: Final = 20
"""Events about refused flows that are published in a twentieth of a second: a client that asks for the
impossible a thousand times a second must not have them all told to everybody; all are counted."""

# -- control tables ------------------------------------------------------------------------------------------

CONTROL_ROWS: Final = 10_000_000
"""Of one control table: more channels or flows than one node serves; some 500 MB while it is read."""

CONTROL_VERSION_BYTES: Final = 1 << 20
"""Of its version.json: names of some ten thousand files."""

CONTROL_LOOK_S: Final = 5.0
"""Between looks for a newer version: a look is one listing of a folder."""

# -- filters of time slots: their bytes come from other nodes and from Spark ---------------------------------

SLOT_WINDOW: Final = 64
"""Slots of one filter: an answer is one word."""

SLOT_HASHES: Final = 16
"""Hash functions of a group: at 16 a filter at its best size has one false positive in 65,536 per slot."""

SLOT_POSITIONS: Final = 1 << 26
"""Positions of one array: a filter of 64 arrays then takes 512 MB, and the 32 bits a position is drawn from
favour none by more than 2 %."""

SLOT_REMEMBERED: Final = 8_192
"""Keys whose positions a filter remembers, for calls with one key at a time: some 5 MB."""

SLOT_LATEST: Final = 1 << 56
"""Number of a slot: microseconds until the year 4253."""

SLOT_FLOWS: Final = 1 << 22
"""Flows of one exact table: 128 MB at its fullest."""

# -- telling people and programs -----------------------------------------------------------------------------

TELL_SENDS: Final = 64
"""Messages on their way at the same time, to different subscribers of one kind: slow receivers of webhooks
hold up nobody who is told by chat."""

TELL_PACES: Final = 100_000
"""Subscribers whose pace is remembered: some 10 MB."""

TELL_RETRY_LEAST_S: Final = 5.0
"""Pause after the first failure to reach somebody; it doubles with each further one."""

TELL_RETRY_MOST_S: Final = 3_600.0
"""Longest pause after failures: a target that comes back is told within the hour."""

TELL_CHARS: Final = 8_000
"""Characters of a message to a person: chat servers refuse stanzas of 64 KB, and nobody reads more."""

COMMAND_CHARS: Final = 4_096
"""A command of a chat: the longest URL, with room for a policy's name."""

COMMANDS_PER_MINUTE: Final = 30
"""Commands of one person: fast typing."""

LIST_LINES: Final = 100
"""Subscriptions told in one answer."""

POST_S: Final = 20.0
"""A receiver of a webhook has so long to answer; ten seconds are usual elsewhere."""

POST_ANSWER_BYTES: Final = 65_536
"""What is read of the answer to a request of ours: a challenge or a sentence."""

OPML_BYTES: Final = 4 << 20
"""A list of feeds: OPML_FEEDS of the usual length."""

OPML_FEEDS: Final = 10_000
"""Feeds in one list; the longest in use have some thousand."""

OPML_DEPTH: Final = 64
"""Folders within folders."""

HUB_VERIFICATIONS: Final = 32
"""Intents that are verified at the same time: each is a request to a stranger's server."""

HUB_WAITING: Final = 1_000
"""Intents that wait to be verified; beyond it subscribers are asked to come again."""

WEBSUB_PUSH_BYTES: Final = 8 << 20
"""A pushed page; as large as one that is fetched."""

LINK_CHARS: Final = 8_192
"""A Link header in which a hub is looked for; the longest in use have some hundred."""

WEBSUB_PUSHES: Final = 16
"""Pushed pages that wait to be compared, 128 MiB at most; beyond it hubs are asked to come again."""

WEBSUB_PUSHES_EACH: Final = 2
"""Of one page: a page chooses its hub, and shall not keep others waiting."""

WEBSUB_VERIFY_S: Final = 3_600.0
"""A hub that has not verified a subscription by then is asked again."""

WEBSUB_LEASE_LEAST_S: Final = 300.0
"""Leases that are shorter are renewed as if they had this length: no hub is asked every second."""

# -- what changed: bodies, rules and deltas of web channels --------------------------------------------------

BODY_BYTES: Final = 8 << 20
"""Body that is read for changes: the largest feeds in use have 5 MB; more is not fetched for a person."""

CONTENT_LINES: Final = 20_000
"""Core content of a page: a novel has 10,000 lines. Comparing two such versions takes 50 MB at worst."""

LINE_CHARS: Final = 2_000
"""A longer line is cut into several, at a space if there is one: bounds every pattern's work on it."""

LINE_PLACES: Final = 2_000
"""Different places (elements by class, paths of JSON) of the lines of a page; lines at further ones share
one."""

PLACE_CHARS: Final = 200
"""Name of a place: its last six or so elements."""

FEED_ITEMS: Final = 2_000
"""Items of a feed, the first in its order: feeds have 10 to 100, archives of podcasts 1,500."""

ITEM_CHARS: Final = 20_000
"""Text of one item that is compared: a long article."""

ITEM_TEXT_CHARS: Final = 2_000
"""Text of one item in a delta: what a person reads before following the link."""

SEEN_ITEMS: Final = 4_000
"""Items that left a feed and are remembered, 16 bytes each: one that comes back is not news."""

TITLE_CHARS: Final = 300
"""Title of a page or an item."""

MARKUP_DEPTH: Final = 256
"""Nesting of elements or JSON: libxml2's own bound for elements."""

TAG_ATTRIBUTES: Final = 1_000
"""Attributes of one tag: libxml2 takes a second for 20,000 and a hundred times that for 200,000."""

SELECTORS: Final = 32
"""Selectors and ignore patterns of one channel, each kind."""

SELECTOR_CHARS: Final = 512
"""Length of one selector."""

SELECTOR_WIDE_STEPS: Final = 3
"""Steps of an XPath that look at a whole tree (`//`, `following::` …): each may multiply the work by the
number of elements."""

COMPARED_VERSIONS: Final = 50
"""Versions before that a new one may be compared with: 8 bytes each."""

DIFF_CELLS: Final = 400_000_000
"""Old lines × new lines that are compared exactly, one bit each: 50 MB. Beyond it all lines between the first
and the last difference count as replaced."""

LEARNED_NOISE: Final = 256
"""Places and shapes of lines that two fetches at once have shown to be noise, of each kind."""

DELTA_BYTES: Final = 1 << 18
"""A delta as a message. The average one of the survey has 17 lines; beyond it the last changes are left
out."""

DELTA_TEXT_CHARS: Final = 4_000
"""A delta as text for a person: one chat message."""

# -- reliable streams: frames between nodes ------------------------------------------------------------------

STREAM_FRAME_BYTES: Final = 1 << 25
"""A message between nodes: the largest payload a node takes from an MQTT client, with its topic."""

STREAM_BODY_BYTES: Final = STREAM_FRAME_BYTES - 4_096
"""Of a stream's message with its topic and properties: it must fit into a frame."""

STREAM_UNLOGGED: Final = 4_096
"""Messages of one connection that streams have not acknowledged: beyond them it is not read from. More than
the window of nearly all clients; others (QoS 0, MQTT 3.1.1) have no window."""

STREAM_UNLOGGED_BYTES: Final = 1 << 23
"""The same in bytes."""

STREAM_SPANS: Final = 1_024
"""Spans of one NACK, 20 KB: whoever misses more asks for the rest with the next."""

STREAM_CURIOUS: Final = 1 << 16
"""Gaps of a stream that one neighbour may have asked for and not been told, 1 MB: a gap between any two of
the messages that come in ten seconds. Whoever asks for more asks again."""

STREAM_NAME_CHARS: Final = 1_024
"""Name of a pubend or of a node."""

STREAM_TICKS: Final = 1 << 62
"""Ticks lie below this: two million years of milliseconds with a thousand ticks each, and 64 bits hold it."""

STREAM_HELLO_BYTES: Final = 1 << 16
"""The first frame of whoever calls, read before anything is known about the caller."""

STREAM_OFFERS: Final = 10_000
"""Streams that a neighbour may offer, and that a node knows in all: a core of each is kept here."""

STREAM_TOPICS: Final = 1_000
"""Topic filters of one stream."""

STREAM_ALIVE_S: Final = 3.0
"""A link on which nothing was said for so long says that it is alive."""

STREAM_DEAD_S: Final = 10.0
"""A link on which nothing was heard for so long is dead: three times silent, and one second for the way."""

STREAM_CALL_LEAST_S: Final = 0.2
"""First pause before a neighbour is called again: it may just have started anew."""

STREAM_CALL_MOST_S: Final = 5.0
"""Longest pause before a neighbour is called again: a tree has few nodes, and streams wait for the link."""

STREAM_CONTROL_BYTES: Final = 4 << 20
"""What may wait for a link beside its data; a neighbour that lets more wait is cut off and met again."""

STREAM_WRITE_BYTES: Final = 1 << 15
"""Written to a link at once, and what may lie unsent behind it: control cannot overtake that."""

STREAM_HANDSHAKES: Final = 256
"""Callers at the streams' door whose greeting is not read and checked yet; more are refused."""

STREAM_READ: Final = 256
"""Messages read from a log at once to answer a NACK: the loop turns between two reads."""

STREAM_ANSWER_BYTES: Final = 16 << 20
"""Read from a log at once to answer NACKs, twice what may wait before a link: the rest would be dropped there
and is asked for again anyway."""

CLIENT_STREAMS: Final = 1_000
"""Streams whose place a client keeps for each of its subscriptions."""

STREAM_FLIGHT: Final = 1_024
"""Messages of one stream that one session has not acknowledged, however large its window: each is in memory,
and those of QoS 2 are written down with every further one."""

STREAM_FEEDS: Final = 16
"""Sessions that catch up with one stream of another node at a time: each asks for messages of its own."""

STREAM_FETCH: Final = 4_096
"""Messages in one answer to a program, unless it asks for fewer."""

STREAM_FETCH_BYTES: Final = 1 << 20
"""Bytes of messages in one answer to a program, unless it asks for fewer; a single one may be larger."""

STREAM_PARTS: Final = 10_000
"""Parts that a span is cut into for a program at once."""

STREAM_REQUESTS: Final = 16
"""Requests of one program under way at once; it is not read from before one of them is answered."""

STREAM_REQUEST_BYTES: Final = 4 << 20
"""And so many bytes of them, if it is more than one."""

STREAM_UNACKED: Final = 50_000
"""Messages of a stream that are not acknowledged, half of what a pubend holds: programs wait beyond this."""

STREAM_ROOM_S: Final = 0.05
"""How long they wait before they look again."""

STREAM_IDLE_COUNT_S: Final = 3_600
"""How often the silence of consumers and writers is counted."""

STREAM_CONSUMERS: Final = 10_000
"""Consumers of a stream, each with a place on disk that the log waits for."""

STREAM_CONSUMER_S: Final = 7 * 86_400
"""A consumer that asks for nothing for so long is forgotten: its messages would fill the disk."""

STREAM_WRITERS: Final = 10_000
"""Writers whose last number is known for a stream."""

STREAM_WRITER_S: Final = 30 * 86_400
"""A writer that is silent for so long is forgotten; what it sends again afterwards is new."""

STREAM_STAGED_BYTES: Final = 4 << 30
"""Rows on disk that wait for the commit of their batch; more are refused."""

STREAM_STAGED_S: Final = 86_400
"""Rows that nobody commits for so long belong to a job that is no more."""

STREAM_APPEND: Final = 512
"""Messages of a program in one request; a stream that is committed twice a millisecond fills no more."""

STREAM_APPEND_BYTES: Final = 1 << 18
"""Or this many bytes of them."""

STREAM_ROW_BYTES: Final = STREAM_FRAME_BYTES - (1 << 20)
"""A line that is written into a stream: a frame less its topic; the node may take less."""

STREAM_KEEP_ALIVE_S: Final = 15
"""A program's idle connection is probed this often: a machine that is gone is noticed in a minute."""

STREAM_RECONNECT_LEAST_S: Final = 0.1
"""First pause of a program before it connects again; it doubles with each failure."""

STREAM_RECONNECT_MOST_S: Final = 5
"""Longest pause of a program before it connects again: programs are fewer than MQTT clients."""

STREAM_PARTITION_ROWS: Final = 100_000
"""Messages of one task of Spark, unless it is told: a second or two of reading."""

STREAM_PATIENCE_S: Final = 60
"""How long Spark tries to reach a node, unless it is told: a restart, and some more."""

STREAM_WAIT_MS: Final = 30_000
"""An empty answer to a program that waits for messages follows at the latest after so long."""

STREAM_CONSUMERS_SHOWN: Final = 100
"""Consumers of one stream in an answer of the API, those with the oldest places; the total counts all."""
