"""Which process hosts which partitions. Pure."""


def deal(partition_count: int, process_count: int) -> list[tuple[int, ...]]:
    """Return the partitions of each process, dealt in turn: 0, 4, 8 … | 1, 5, 9 … | …"""
    assert 1 <= process_count <= partition_count
    return [tuple(range(first, partition_count, process_count)) for first in range(process_count)]
