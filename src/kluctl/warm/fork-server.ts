import { confiningInPython } from "../../jail/python.ts";
import { passVariable } from "./light-stand-in.ts";

/**
 * The program of the fork server, for kluctl's own Python. Starting four interpreters and loading their libraries is
 * most of the cost of a kluctl run; the fork server imports the libraries once, and is forked for each renderer that
 * kluctl starts.
 *
 * - The server itself never runs a template: it imports, listens and forks. So every renderer begins in the same state
 *   and sees nothing of any other.
 * - A renderer behaves like `python3 main.py`: it has the descriptors, arguments, directory and environment that kluctl
 *   gave it. Whatever an interpreter reads only at its start must be the same for server and renderer; otherwise the
 *   renderer starts cold.
 * - The kernel kills a renderer, and what it has started, when its stand-in ends, whatever the template is doing. So it
 *   never outlives its kluctl, which the watchdog ends together with the stand-ins.
 * - The renderer sends its exit status itself, so that running renderers are not affected if the server crashes.
 * - Each renderer leads a process group that is killed when it ends: processes that a template starts stay in that
 *   group.
 *
 * For previews each renderer is confined before it sees a template, and does not run if it cannot be confined. A
 * renderer cannot choose the run it belongs to, and thereby what it may read: it presents a pass that only this run was
 * given and that expires with the run. The server stores only the hashes of passes, because its forks could print
 * everything in its memory. A preview renderer that closes its connection is still killed with its stand-in: the server
 * keeps the connection open as long as the renderer exists.
 *
 * Arguments: the path of the socket, the memory and the CPU seconds that a renderer may use; for previews also the
 * description of the jail. Descriptor 0 stays open as long as our process lives; for previews we write one line of JSON
 * to it when a run begins, with the paths that it may read, and when it has ended. On descriptor 1 the fork server
 * writes `listening` once, `cold <why>` for each renderer that it refuses, and for previews `renders <run> <pid>` for each
 * renderer that it takes.
 */
export const forkServer = String.raw`
import array, fcntl, gc, hashlib, json, marshal, os, resource, runpy, select, signal, socket, sys, types

path, memory, cpu = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jail = json.loads(sys.argv[4]) if len(sys.argv) > 4 else None
F_SETSIG = 10  # Linux's; the module does not name it
MOST_BYTES = 4 << 20  # of a request; the kernel takes less of arguments and environment together

${confiningInPython}


def receive(conn):
    conn.settimeout(5)
    head, ancillary, _, _ = conn.recvmsg(8, socket.CMSG_SPACE(3 * 4))
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data)
    rest, parts = int.from_bytes(head, "big"), []
    if rest > MOST_BYTES:
        raise ValueError("it is too long")
    while rest > 0:
        parts.append(conn.recv(rest))
        if not parts[-1]:
            raise ConnectionError("the stand-in is gone")
        rest -= len(parts[-1])
    return (descriptors, *marshal.loads(b"".join(parts)))


def read_at_start(environ):
    names = (b"PYTHON", b"LC_", b"LANG", b"TZ")
    read = {name: value for name, value in environ.items() if name.startswith(names) and name != b"PYTHONPATH"}
    if read.get(b"LC_CTYPE") == b"C.UTF-8":
        del read[b"LC_CTYPE"]  # what an interpreter puts there itself when there is no locale
    if b"PYTHONHOME" in read:
        read[b"PYTHONHOME"] = os.path.realpath(read[b"PYTHONHOME"])  # in a directory of its own, it is a link
    return read


def folders(environ):
    return [folder for folder in os.fsdecode(environ.get(b"PYTHONPATH", b"")).split(":") if folder]


def identity(args, environ):
    # kluctl has a cache directory for each namespace, in which its libraries are links.
    return [os.path.realpath(one) for one in (args[0], *folders(environ))]


def compiled(path):
    with open(path, "rb") as script:
        return compile(script.read(), path, "exec")


own = read_at_start(os.environb)
base = sys.path[1:]
learned = None
scripts = {}
runs = {}  # what each may read, by the hash of its pass
renderers = {}  # of previews: the connection of each, by its process
heard = b""


def learn(args, environ):
    """Imports what the first renderer would: its script does, when it is not the main one."""
    global learned
    learned = identity(args, environ)
    # Without the links, which go with the first run: packages import parts of themselves later, where they were found.
    sys.path[:] = [*map(os.path.realpath, (os.path.dirname(args[0]), *folders(environ))), *base]
    runpy.run_path(args[0], run_name="imported")
    scripts[args[0]] = compiled(args[0])
    for name in ("go_jinja2.ext", "jinja2.debug", "jinja2.ext", "ext.images_ext", "jsonpath_ng.ext", "slugify"):
        try:
            __import__(name)
        except ImportError:
            pass  # of another version; the renderer imports what it wants
    prepare_lexers()
    gc.collect()
    gc.freeze()  # else the first collection of each renderer would copy all of it


def prepare_lexers():
    """Jinja keeps the patterns it reads templates with, by these options; making them takes as long as a small template."""
    try:
        from jinja2 import Environment, lexer

        for trim in (False, True):
            for strip in (False, True):
                lexer.get_lexer(Environment(trim_blocks=trim, lstrip_blocks=strip))
    except Exception:
        pass  # of another version; the renderer makes its own


def why_not(args, environ):
    if read_at_start(environ) != own:
        return "its environment asks for another interpreter"
    if args[0] != "-c" and identity(args, environ) != learned:
        return "it is another renderer than the one that was imported"
    if not has_run(environ):
        return "the preview that it belongs to is over"


def has_run(environ):
    return jail is None or run_of(environ) in runs


def run_of(environ):
    return hashlib.sha256(environ.get(b"${passVariable}", b"")).hexdigest()


def hear():
    """Which runs begin and end. Returns whether somebody is still there to say it."""
    global heard
    more = os.read(alive, 1 << 16)
    *lines, heard = (heard + more).split(b"\n")
    for line in map(json.loads, lines):
        if "reads" in line:
            runs[line["run"]] = line["reads"]
        else:
            runs.pop(line["run"], None)
    return more != b""


def become(descriptors, cwd, environ):
    os.setpgid(0, 0)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(cwd)
    os.environb.clear()
    os.environb.update(environ if jail is None else only_pythons(environ))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if jail is None:
        bound(resource.RLIMIT_AS, memory)
        bound(resource.RLIMIT_CPU, cpu)


def only_pythons(environ):
    names = (b"PYTHON", b"LC_", b"LANG", b"TZ")
    return {name: value for name, value in environ.items() if name.startswith(names)}


def bound(what, most):
    limits = resource.getrlimit(what)
    resource.setrlimit(what, tuple(most if one == resource.RLIM_INFINITY else min(one, most) for one in limits))


def end_with(conn):
    conn.setblocking(False)
    fcntl.fcntl(conn, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(conn, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(conn, fcntl.F_SETFL, fcntl.fcntl(conn, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([conn], [], [], 0)[0]:
        os._exit(0)  # too late for the signal


def prove_end_with():
    """Not every kernel and sandbox does it, and a renderer must not find out."""
    here, there = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        here.close()
        os.setpgid(0, 0)
        end_with(there)
        there.send(b"+")
        signal.alarm(5)
        signal.pause()
    there.close()
    here.recv(1)
    here.close()
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
        raise OSError("the kernel does not end a process when a socket closes")


def run(args, environ):
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if args[0] == "-c":
        sys.argv, first, code = ["-c", *args[2:]], "", compile(args[1], "<string>", "exec")
    else:
        sys.argv, first, main.__file__ = args, os.path.dirname(args[0]), args[0]
        code = scripts.get(args[0]) or compiled(args[0])
    sys.path[:] = [first, *folders(environ), *base]
    # Calls that lead here and that it would not have above it; exec itself counted until 3.11.
    sys.setrecursionlimit(sys.getrecursionlimit() + (4 if sys.version_info < (3, 12) else 3))
    try:
        exec(code, main.__dict__)
        return 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255
        print(end.code, file=sys.stderr)
    except BaseException as error:
        shown = error.with_traceback(error.__traceback__.tb_next)
        sys.excepthook(type(shown), shown, shown.__traceback__)
    return 1


def flush():
    import atexit

    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        return 0
    except OSError:
        return 120


def render(conn, request):
    try:
        descriptors, args, cwd, environ = request or receive(conn)
        why = why_not(args, environ)
        if why is None:
            become(descriptors, cwd, environ)
    except Exception as error:
        why = f"it cannot be what kluctl wants: {error!r}"
    if why is not None:
        os.write(report, f"cold {why}\n".encode())
        return  # the end of the connection says no
    if jail is not None:
        os.write(report, f"renders {run_of(environ)} {os.getpid()}\n".encode())
    os.close(report)
    try:
        conn.sendall(b"+")
        if conn.recv(1) != b"+":
            return  # it has given up on us meanwhile, and starts cold
    except OSError:
        return
    end_with(conn)
    if jail is not None:
        try:
            reads, environ = runs[run_of(environ)], only_pythons(environ)
            runs.clear()  # a template could find out what others may read
            confine(jail, reads)
        except BaseException as error:
            os.write(2, f"not confined: {error!r}\n".encode())
            return
    status = run(args, environ)
    status = flush() or status
    conn.send(bytes([status]))
    os.killpg(0, signal.SIGKILL)  # itself, and what the template has left running


def kill(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has not rendered


def reap(*_):
    try:
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            kill(ended.si_pid)  # before its id can be somebody else's
            os.waitpid(ended.si_pid, 0)
            conn = renderers.pop(ended.si_pid, None)
            if conn is not None:
                conn.close()
    except ChildProcessError:
        pass


def close_if_open(descriptor):
    try:
        os.close(descriptor)
    except OSError:
        pass


# A renderer's descriptors 0 to 2 come from kluctl, and sys.stdin and its like shall be as the interpreter made them: so
# nobody reads from them or writes to them before.
if jail is not None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            close_if_open(int(name))  # of whoever started the server
alive, report, null = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
os.dup2(null, 0)
os.dup2(null, 1)
os.close(null)
os.umask(0o077)
os.nice(10)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
prove_end_with()
if jail is not None:
    prove_confined(jail)
signal.signal(signal.SIGCHLD, reap)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(256)
os.write(report, b"listening\n")

while True:
    ready = select.select([listener, alive], [], [])[0]
    if alive in ready:
        if not hear():
            break
        continue  # it was said before its renderers could come
    conn, _ = listener.accept()
    request = None
    if learned is None:
        try:
            request = receive(conn)
        except Exception:
            conn.close()  # it starts cold
            continue
        if request[1][0] != "-c" and has_run(request[3]):
            learn(request[1], request[3])
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # until it is known who it is
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        for other in (listener, *renderers.values()):
            other.close()
        os.close(alive)
        try:
            render(conn, request)
        finally:
            os._exit(0)
    for descriptor in request[0] if request else ():
        os.close(descriptor)
    if jail is None:
        conn.close()
    else:
        renderers[pid] = conn
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
for pid in renderers:
    kill(pid)
    os.kill(pid, signal.SIGKILL)  # it may lead no group yet
`;
