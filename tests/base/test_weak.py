"""Sets of weakly held objects: what they hold, and threads that add to one while another walks through it."""

import gc
import threading

from warp_like.base.weak import WeakObjects


class Thing:
    pass


def test_objects_go():
    known = WeakObjects()
    kept, dropped = Thing(), Thing()
    for one in (kept, dropped, kept):
        known.add(one)
    assert len(known) == 2
    assert dropped in known
    del one, dropped
    gc.collect()
    assert list(known) == [kept]
    known.discard(kept)
    known.discard(kept)
    assert kept not in known
    assert not list(known)


def test_threads_add_while_others_look():
    known, over, raised = WeakObjects(), threading.Event(), []

    def add():
        while not over.is_set():
            some = [Thing() for _ in range(50)]
            for one in some:
                known.add(one)

    def look():
        try:
            for _ in range(2000):
                assert all(isinstance(one, Thing) for one in known)
        except Exception as e:
            raised.append(e)
        finally:
            over.set()

    threads = [threading.Thread(target=f) for f in (add, add, look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised
