"""The machines of Penstock, without clock, dice, sockets or files: the owner brings all of those."""
