"""Every kind of process that Python's own library starts."""

import multiprocessing as mp
import os
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.shared_memory import SharedMemory


def add(lock, name, queue):
    with lock:
        memory = SharedMemory(name=name)
        memory.buf[0] += 1
        memory.close()
    queue.put(os.getpid())


def each_method():
    for method in ("fork", "spawn", "forkserver"):
        context = mp.get_context(method)
        memory = SharedMemory(create=True, size=10)
        lock, queue, event, gate = context.Lock(), context.Queue(), context.Event(), context.Semaphore(2)
        jobs = [context.Process(target=add, args=(lock, memory.name, queue)) for _ in range(2)]
        for job in jobs:
            job.start()
        seen = {queue.get(timeout=30) for _ in jobs}
        for job in jobs:
            job.join()
        event.set()
        with gate:
            print(method, memory.buf[0], len(seen), event.wait(1))
        memory.close()
        memory.unlink()


def pools():
    with mp.Pool(2) as pool:
        print("pool", sum(pool.imap_unordered(abs, range(-5, 5))))
    with mp.Manager() as manager:
        shared = manager.dict(a=1)
        shared["b"] = 2
        print("manager", sorted(shared.keys()))
    with ProcessPoolExecutor(2) as processes, ThreadPoolExecutor(4) as threads:
        print("executors", sum(processes.map(abs, [-1, -2])), sum(threads.map(abs, [-3])))
    parent, child = mp.Pipe()
    process = mp.Process(target=child.send, args=("piped",))
    process.start()
    print("pipe", parent.recv())
    process.join()


def others():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    print("fork", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print("spawn", os.waitpid(os.posix_spawnp("true", ["true"], os.environ), 0)[1])
    session = subprocess.run(
        "echo $$; ps -o pid= -o sid= -p $$", shell=True, capture_output=True, start_new_session=True
    )
    print("session", len(set(session.stdout.split())))
    group = subprocess.Popen(["sleep", "60"], process_group=0)
    os.killpg(group.pid, 15)
    print("group", group.wait())
    pidfd = os.pidfd_open(os.getpid())
    os.close(pidfd)


if __name__ == "__main__":
    each_method()
    pools()
    others()
