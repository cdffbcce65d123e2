"""What the environment of JAX and Paddle promises, with plain sockets: rank 0 listens, the others come to it."""

import json
import os
import socket
import time

if "JAX_COORDINATOR_ADDRESS" in os.environ:
    address, rank, world = (
        os.environ[name] for name in ("JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES")
    )
else:
    address, world = os.environ["PADDLE_MASTER"], os.environ["PADDLE_NNODES"]
    rank = os.environ["PADDLE_RANK"]
host, port = address.rsplit(":", 1)
rank, world = int(rank), int(world)
assert world == int(os.environ["EXPECTED_WORLD_SIZE"]), world


def join() -> str:
    for _ in range(120):
        try:
            with socket.create_connection((host, int(port)), timeout=2) as connection:
                connection.sendall(str(rank).encode())
                return connection.makefile().readline()
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(f"rank 0 does not listen at {address}")


if rank == 0:
    ranks = {0}
    with socket.create_server(("", int(port))) as server:
        while len(ranks) < world:
            connection, _ = server.accept()
            with connection:
                ranks.add(int(connection.recv(16)))
                connection.sendall(b"welcome\n")
    assert ranks == set(range(world)), ranks
    with open(os.environ["TRAINER_RESULT_PATH"], "w") as file:  # noqa: PTH123
        json.dump({"world": world, "metrics": {"met": len(ranks)}}, file)
else:
    assert join() == "welcome\n"
print(f"rank {rank} of {world} has met the others")
