/** What the code of a hostile branch tries, in the renderers: a program in Python, and what it needs to find. */
import { confiningInPython } from "../../src/jail/python.ts";

export interface AttackPlaces {
  /** A file with a secret, outside of all that a renderer may read. */
  readonly canary: string;
  /** A directory above it. */
  readonly above: string;
  /** The clone that is rendered. */
  readonly clone: string;
  /** A process that is none of the renderer's. */
  readonly pid: number;
  /** Somebody listens there. */
  readonly port: number;
}

/**
 * Each attempt by its name: `refused`, or what it got. Some have the kernel run a call by its number, as what confines
 * renderers does.
 */
export function attackProgram({ canary, above, clone, pid, port }: AttackPlaces): string {
  return String.raw`
import os, socket, signal, subprocess, sys, json, time

canary, above, clone, pid, port = ${[canary, above, clone, pid, port].map((one) => JSON.stringify(one)).join(", ")}
read = lambda path: open(path, "rb").read()
tries = {
    "file": lambda: read(canary),
    "relative": lambda: read(os.path.relpath(canary, clone)),
    "link": lambda: read(clone + "/link"),
    "hard link": lambda: os.link(canary, clone + "/hard"),
    "descriptor": lambda: [os.read(n, 9) for n in range(3, 64) if os.path.exists("/proc/self/fd")] and read("/proc/self/fd/3"),
    "own environment": lambda: read("/proc/self/environ"),
    "environment": lambda: read(f"/proc/{pid}/environ"),
    "memory": lambda: open(f"/proc/{pid}/mem", "rb"),
    "maps": lambda: read(f"/proc/{pid}/maps"),
    "command": lambda: read(f"/proc/{pid}/cmdline"),
    "passwd": lambda: read("/etc/passwd"),
    "token": lambda: read("/var/run/secrets/kubernetes.io/serviceaccount/token"),
    "list root": lambda: os.listdir("/"),
    "list above": lambda: os.listdir(above),
    "list temporary": lambda: os.listdir("/tmp"),
    "list kluctl's": lambda: os.listdir(os.path.dirname(os.path.dirname(sys.path[0]))) if os.path.dirname(sys.path[0]) not in ("", "/") and not sys.path[0].startswith("/usr") else os.listdir("/"),
    "write project": lambda: open(clone + "/written", "w"),
    "append": lambda: open(clone + "/deployment.yaml", "a"),
    "truncate": lambda: os.open(clone + "/deployment.yaml", os.O_RDONLY | os.O_TRUNC),
    "mode": lambda: os.chmod(clone + "/deployment.yaml", 0),
    "times": lambda: os.utime(clone + "/deployment.yaml"),
    "rename": lambda: os.rename(clone + "/deployment.yaml", clone + "/other.yaml"),
    "remove": lambda: os.unlink(clone + "/deployment.yaml"),
    "pipe": lambda: os.mkfifo(clone + "/fifo"),
    "directory": lambda: os.mkdir(clone + "/new"),
    "write temporary": lambda: open("/tmp/towline-written", "w"),
    "write shared memory": lambda: open("/dev/shm/towline-written", "w"),
    "write library": lambda: open(os.path.join(os.path.dirname(os.__file__), "sitecustomize.py"), "w"),
    "shell": lambda: os.popen("id").read(),
    "program": lambda: subprocess.run(["/bin/true"], check=True),
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "fork": lambda: os.fork(),
    "thread": lambda: __import__("_thread").start_new_thread(os.getpid, ()),
    "session": lambda: os.setsid(),
    "signal": lambda: os.kill(pid, 0),
    "signal parent": lambda: os.kill(os.getppid(), 0),
    "signal all": lambda: os.kill(-1, signal.SIGCONT),
    "owner": lambda: __import__("fcntl").fcntl(0, 8, pid),
    "tcp": lambda: socket.create_connection(("127.0.0.1", port), 1),
    "tcp6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM),
    "mptcp": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262),
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "netlink": lambda: socket.socket(16, socket.SOCK_RAW),
    "packet": lambda: socket.socket(17, socket.SOCK_RAW),
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM),
    "unix": lambda: socket.socket(socket.AF_UNIX),
    "pair": lambda: socket.socketpair(),
    "name": lambda: socket.getaddrinfo("metadata.google.internal", 80),
    "listen": lambda: socket.socket().listen(),
    "limits": lambda: __import__("resource").prlimit(pid, 7, (8, 8)),
    "own limits": lambda: __import__("resource").setrlimit(2, (1 << 40, 1 << 40)),
    "priority": lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
    "affinity": lambda: os.sched_setaffinity(pid, {0}),
    "memory file": lambda: os.memfd_create("x"),
    "chroot": lambda: os.chroot(clone),
    "group": lambda: os.setpgid(0, 0),
    "many files": lambda: [os.open(clone + "/deployment.yaml", 0) for _ in range(2000)],
    "much memory": lambda: bytearray(3 << 30),
}
${confiningInPython}
try:
    ask = kernel()
    for name, call in ${JSON.stringify(rawCalls[process.arch] ?? {})}.items():
        tries["call " + name] = lambda call=call: ask(*call)
except Exception:
    pass

found = {}
for name, attempt in tries.items():
    try:
        found[name] = repr(attempt())[:200]
    except (OSError, ValueError, MemoryError, ImportError, AttributeError, subprocess.SubprocessError, RuntimeError) as error:
        found[name] = "refused"
found["environment"] = json.dumps(dict(os.environ))
environment = ", ".join(sorted(os.environ))
found["python"] = " ".join(sys.orig_argv)
result = json.dumps(found)
got = [name for name, answer in found.items() if answer != "refused" and name not in ("environment", "python")]
told = ", ".join(got) or "nothing"
`;
}

/** With arguments that would work, where they are few enough. Numbers of x86-64 and of its other ABI, then of arm64. */
const rawCalls: Readonly<Record<string, Readonly<Record<string, readonly number[]>>>> = {
  x64: {
    socket: [41, 2, 1, 0],
    ptrace: [101, 16, 1, 0, 0],
    process_vm_readv: [310, 1, 0, 0, 0, 0, 0],
    pidfd_open: [434, 1, 0],
    io_uring: [425, 8, 0],
    keyctl: [250, 0, -3, 0],
    bpf: [321, 0, 0, 0],
    userfaultfd: [323, 0],
    unshare: [272, 0x10000000],
    mount: [165, 0, 0, 0, 0, 0],
    setns: [308, 0, 0],
    personality: [135, 0x0040000],
    shmget: [29, 0, 4096, 0o1600],
    mq_open: [240, 0, 0, 0, 0],
    msgget: [68, 0, 0o1600],
    prctl: [157, 4, 1, 0, 0, 0],
    setpriority: [141, 0, 0, 10],
    "open of x32": [0x40000000 + 2, 0, 0, 0],
    tee: [276, 0, 1, 1, 0],
    "newer than all": [1000],
  },
  arm64: {
    socket: [198, 2, 1, 0],
    ptrace: [117, 16, 1, 0, 0],
    pidfd_open: [434, 1, 0],
    io_uring: [425, 8, 0],
    unshare: [97, 0x10000000],
    personality: [92, 0x0040000],
    shmget: [194, 0, 4096, 0o1600],
    prctl: [167, 4, 1, 0, 0, 0],
    "newer than all": [1000],
  },
};

/** A template that runs the program of a file of the clone, and prints all that it found. */
export function attackTemplate(file: string): string {
  return `${running(`${builtins}["open"]("${file}").read()`)}{{ scope.result | b64encode }}`;
}

/** A template that runs the program, and prints what it got by name, and with which environment it ran. */
export function attackInPlace(program: string): string {
  const text = Buffer.from(program).toString("base64");
  const decoded = `${builtins}["__import__"]("base64").b64decode("${text}")`;
  return `${running(decoded)}got {{ scope.told }} with {{ scope.environment }}`;
}

const builtins = `cycler.__init__.__globals__["__builtins__"]`;

function running(code: string): string {
  return `{% set scope = {} %}{% set _ = ${builtins}["exec"](${code}, scope) %}`;
}
