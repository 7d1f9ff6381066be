from penstock.broker.network.buffers import STANDARD_BYTES, BufferPool, RequestMemory


def test_buffers_come_in_powers_of_two_and_are_used_again() -> None:
    pool = BufferPool()
    small = pool.take(10)
    large = pool.take(STANDARD_BYTES + 1)
    assert len(small) == STANDARD_BYTES
    assert len(large) == 2 * STANDARD_BYTES
    pool.give(small)
    pool.give(large)
    assert pool.take(STANDARD_BYTES) is small
    assert pool.take(2 * STANDARD_BYTES) is large


def test_the_pool_keeps_no_more_than_its_limit() -> None:
    pool = BufferPool(pooled_bytes_max=STANDARD_BYTES)
    first, second = pool.take(1), pool.take(1)
    pool.give(first)
    pool.give(second)
    assert pool.take(1) is first
    assert pool.take(1) is not second


def test_memory_is_granted_while_any_is_left_so_that_one_may_overshoot() -> None:
    memory = RequestMemory(100)
    assert memory.reserve(90)
    assert memory.reserve(1000)
    assert not memory.reserve(1)
    assert memory.reserved_bytes == 1090


def test_those_who_wait_are_called_once_when_memory_is_released() -> None:
    memory = RequestMemory(100)
    assert memory.reserve(100)
    called: list[str] = []
    memory.call_when_free(lambda: called.append("first"))
    memory.call_when_free(lambda: called.append("second"))
    memory.release(100)
    memory.release(0)
    assert called == ["first", "second"]


def test_no_limit_grants_everything() -> None:
    memory = RequestMemory(-1)
    assert all(memory.reserve(1 << 30) for _ in range(100))
