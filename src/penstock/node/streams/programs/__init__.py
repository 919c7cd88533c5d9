"""Programs that use streams without MQTT (`StreamReader`, `StreamWriter`, Spark), and their listener.

- `listener`: accepts connections of programs and neighbour nodes.
- `program_connection`: one connection of a program, and the memory that all of them share.
- `server`: answers the requests of programs and checks access.
- `names`: named consumers and writers, their owners and how long they are kept.
- `reads`: reads spans of a log for programs.
- `writes`: puts rows and committed batches of programs into streams.
- `staging`: rows that tasks staged and nobody has committed yet.
"""
