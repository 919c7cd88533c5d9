"""Access control: which clients may connect, and which topics each may publish and subscribe to.

gate.py        decides about each connection, user, topic and filter; counts connections by address
rate.py        the rate limiter: a burst and then an even rate
passwords.py   argon2 hashes, made and checked off the event loop
acl.py         the access list: who may publish and subscribe to what
unfinished.py  connections that have not finished a handshake or first request, bounded
tls.py         TLS handshakes
secret.py      the node's own secret, and tokens derived from it
"""
