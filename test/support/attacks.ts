/** The attempts of a hostile branch whose code runs in the renderers: a Python program and the things it attacks. */
import { confiningInPython } from "../../src/jail/python.ts";

export interface AttackPlaces {
  /** Files with the content `CANARY` outside of what a renderer may read, by description. */
  readonly files: Readonly<Record<string, string>>;
  /** Other files, with any content. */
  readonly others?: Readonly<Record<string, string>>;
  /** Unix sockets that answer every client. */
  readonly sockets?: Readonly<Record<string, string>>;
  /** TCP ports on loopback that answer every client. */
  readonly ports: Readonly<Record<string, number>>;
  /** A directory above the files. */
  readonly above: string;
  /** Parent of the directories of kluctl runs. */
  readonly work?: string;
  /** A process that does not belong to the renderer. */
  readonly pid: number;
  /** A bare repository that accepts pushes. */
  readonly remote?: string;
  /** Aims and names to report if the output is limited; all if absent. */
  readonly tells?: readonly string[];
  /** A number of seconds that no other `sleep` uses, by which processes that outlive their run are found. */
  readonly lasting?: string;
}

/** What a branch can attempt through its code. */
export const codeAims = [
  "programs",
  "connections",
  "processes",
  "kernel",
  "environment",
  "others",
  "login",
  "files",
  "writing",
  "memory",
] as const;
export type CodeAim = (typeof codeAims)[number];

/** Rarely used kernel features, by their names below. */
const kernelCalls = [
  "unshare",
  "io_uring",
  "keyctl",
  "bpf",
  "userfaultfd",
  "mount",
  "setns",
  "personality",
  "shmget",
  "mq_open",
  "msgget",
  "prctl",
  "setpriority",
  "open of x32",
  "tee",
  "newer than all",
] as const;

/** Attempts that some kernels or users cannot make anyway, so that their failure proves nothing. */
export const mayLack = new Set<string>([
  ...["IPv6", "packet", "vsock", "MPTCP", "fork server"].map((name) => `connections: ${name}`),
  ...["ptrace", "process_vm_readv", "pidfd_open"].map((name) => `processes: call ${name}`),
  "others: memory",
  "others: what they may read", // only the fork server of previews knows this
  "kernel: chroot",
  ...kernelCalls.map((name) => `kernel: call ${name}`),
]);

/** Files of a project that attempts may change, one for each attempt. */
export const victims = ["append", "truncate", "mode", "times", "rename", "remove"].map((name) => `victims/${name}`);

/** The attempts as Python expressions, which raise if they are refused. */
function attemptsOf(places: AttackPlaces): Readonly<Record<CodeAim, Readonly<Record<string, string>>>> {
  const { files, others = {}, sockets = {}, ports, remote } = places;
  const port = Object.values(ports)[0] ?? 9;
  const each = (of: Readonly<Record<string, string | number>>, prefix: string, tried: (value: string) => string) =>
    Object.fromEntries(Object.entries(of).map(([name, value]) => [`${prefix} ${name}`, tried(JSON.stringify(value))]));
  const opened = (family: string, kind = "socket.SOCK_STREAM", protocol = 0) =>
    `socket.socket(${family}, ${kind}, ${protocol})`;
  const raw = (name: string) => ({ [`call ${name}`]: `called(${JSON.stringify(name)})` });
  return {
    programs: {
      shell: `some(os.popen("echo CANARY").read())`,
      program: `subprocess.run(["/bin/true"], check=True)`,
      exec: `os.execv("/bin/true", ["true"])`,
      spawn: `os.posix_spawn("/bin/true", ["true"], {})`,
      fork: `os.fork()`,
      thread: `__import__("_thread").start_new_thread(os.getpid, ())`,
      session: `os.setsid()`,
      group: `os.setpgid(0, 0)`,
      ...(places.lasting !== undefined && { "what outlives its run": `outlive(${JSON.stringify(places.lasting)})` }),
      ...(remote !== undefined && { push: `push(${JSON.stringify(remote)})` }),
    },
    connections: {
      ...each(ports, "TCP to", (to) => `connected(socket.AF_INET, ("127.0.0.1", ${to}))`),
      ...each(sockets, "socket of", (path) => `connected(socket.AF_UNIX, ${path})`),
      "fork server": `${opened("socket.AF_UNIX")}.connect(glob.glob(work + "/*/socket")[0])`,
      "abstract socket": `${opened("socket.AF_UNIX")}.bind("\\0" + os.urandom(8).hex())`,
      MPTCP: `connected(socket.AF_INET, ("127.0.0.1", ${port}), 262)`,
      "Fast Open": `${opened("socket.AF_INET")}.sendto(b"x", 0x20000000, ("127.0.0.1", ${port}))`,
      UDP: `${opened("socket.AF_INET", "socket.SOCK_DGRAM")}.sendto(b"x", ("127.0.0.1", 53))`,
      "the cloud's metadata": `attempted(("169.254.169.254", 80))`,
      IPv6: opened("socket.AF_INET6"),
      netlink: opened("16", "socket.SOCK_RAW"),
      packet: opened("17", "socket.SOCK_RAW"),
      vsock: opened("40"),
      pair: `socket.socketpair()`,
      listening: `${opened("socket.AF_INET")}.listen()`,
      ...raw("socket"),
    },
    processes: {
      signal: `os.kill(pid, 0)`,
      "signal to its parent": `os.kill(os.getppid(), 0)`,
      "signal to all": `os.kill(-1, 0)`,
      owner: `__import__("fcntl").fcntl(0, 8, pid)`,
      limits: `__import__("resource").prlimit(pid, 7, (64, 64))`,
      priority: `os.setpriority(os.PRIO_PROCESS, pid, 19)`,
      affinity: `os.sched_setaffinity(pid, os.sched_getaffinity(0))`,
      ...raw("ptrace"),
      ...raw("process_vm_readv"),
      ...raw("pidfd_open"),
    },
    kernel: {
      "memory file": `os.memfd_create("x")`,
      chroot: `os.chroot(clone)`,
      "own limits": `__import__("resource").setrlimit(2, (1 << 40, 1 << 40))`,
      ...Object.assign({}, ...[...kernelCalls].map(raw)),
    },
    environment: {
      "own environment": `holding(read("/proc/self/environ"))`,
      variables: `some([name for name in os.environ if not name.startswith(("PYTHON", "LC_", "LANG", "TZ"))])`,
    },
    others: {
      environment: `some(read(f"/proc/{pid}/environ"))`,
      memory: `open(f"/proc/{pid}/mem", "rb")`,
      maps: `some(read(f"/proc/{pid}/maps"))`,
      arguments: `some(read(f"/proc/{pid}/cmdline"))`,
      "what they may read": `some(next(iter(outermost().get("runs", {}).values()), None))`,
    },
    login: { "a kubeconfig": `login()` },
    files: {
      ...each(files, "read", (path) => `holding(read(${path}))`),
      ...each(others, "read", (path) => `some(read(${path}))`),
      "a relative path": `holding(read(os.path.relpath(first)))`,
      "a link": `holding(read(clone + "/link"))`,
      "names of users": `some(read("/etc/passwd"))`,
      "the root": `os.listdir("/")`,
      "a directory above": `os.listdir(above)`,
      "temporary files": `os.listdir("/tmp")`,
      "other runs": `os.listdir(work)`,
    },
    writing: {
      "into the project": `made(clone + "/written")`,
      "a hook": `made(clone + "/.git/hooks/post-checkout")`,
      append: `open(clone + "/victims/append", "a").write("x")`,
      truncate: `os.open(clone + "/victims/truncate", os.O_RDONLY | os.O_TRUNC)`,
      mode: `os.chmod(clone + "/victims/mode", 0)`,
      times: `os.utime(clone + "/victims/times")`,
      rename: `os.rename(clone + "/victims/rename", clone + "/victims/renamed")`,
      remove: `os.unlink(clone + "/victims/remove")`,
      pipe: `fifo(clone + "/fifo")`,
      directory: `os.mkdir(clone + "/new")`,
      "hard link": `os.link(first, above + "/hard")`,
      "symbolic link": `os.symlink(first, clone + "/soft")`,
      "a file of the server": `open(first, "ab")`,
      "temporary files": `made("/tmp/towline-" + os.urandom(8).hex())`,
      "shared memory": `made("/dev/shm/towline-" + os.urandom(8).hex())`,
      Python: `made(os.path.join(os.path.dirname(os.__file__), "towline-written"))`,
      "other runs": `made(work + "/written")`,
    },
    memory: {
      "much memory": `__import__("mmap").mmap(-1, 3 << 30, flags=0x22)`,
      "a long text": `len("x" * 600_000_000)`,
      "many files": `many()`,
    },
  };
}

/**
 * Makes all attempts, each in a process of its own where possible, so that one that succeeds does not affect the next.
 * `result` maps each aim and name to `refused` or to what it obtained. Some attempts make a system call by number, like
 * the code that confines renderers; these count as refused only if the kernel rejected the call itself rather than its
 * arguments.
 */
export function attackProgram(places: AttackPlaces): string {
  const { above, work = above, pid } = places;
  const tries = Object.entries(attemptsOf(places)).flatMap(([aim, attempts]) =>
    Object.entries(attempts).map(([name, tried]) => `    ${JSON.stringify(`${aim}: ${name}`)}: lambda: ${tried},\n`),
  );
  const first = Object.values(places.files)[0] ?? "/";
  return String.raw`
import os, socket, signal, subprocess, sys, json, time, glob, base64

above, work, pid, first = ${[above, work, pid, first].map((one) => JSON.stringify(one)).join(", ")}
${confiningInPython}


def no(why="nothing was there"):
    raise OSError(why)


def find_clone():
    """Where the project lies, as kluctl told the renderer."""
    frame = sys._getframe()
    while frame:
        opts = getattr(frame.f_locals.get("self"), "opts", None)
        if isinstance(opts, dict) and opts.get("searchDirs"):
            return opts["searchDirs"][-1]
        frame = frame.f_back
    raise RuntimeError("the project was not found")


clone = find_clone()
some = lambda found: found or no()
holding = lambda found: found if b"CANARY" in found else no()


def outermost():
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
    return frame.f_globals


def read(path):
    with open(path, "rb") as file:
        return file.read(1 << 20)


def made(path):
    open(path, "w").close()
    os.unlink(path)


def fifo(path):
    os.mkfifo(path)
    os.unlink(path)  # kluctl would wait for it


def connected(family, address=None, protocol=0):
    one = socket.socket(family, socket.SOCK_STREAM, protocol)
    one.settimeout(5)
    one.connect(address)
    one.sendall(b"PING\r\n\r\n")
    return "sent"


def attempted(address):
    """Where nobody is: what counts is that nothing here holds it back."""
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.setblocking(False)
    code = one.connect_ex(address)
    return code if code not in (1, 13) else no()


def login():
    for path in [os.environ.get("KUBECONFIG", ""), *glob.glob(work + "/*/kubeconfig*")]:
        try:
            text = read(path)
        except OSError:
            continue
        if b"client-key-data" in text or b"token" in text:
            return path
    no()


def outlive(lasting):
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.closerange(3, 256)
        os.execv("/bin/sleep", ["sleep", lasting])


def push(remote):
    git = ["git", "-c", "safe.directory=*", "-C", clone, "push", "--quiet", remote, "HEAD:refs/heads/pushed"]
    subprocess.run(git, check=True)


def many():
    opened = []
    try:
        while len(opened) < 200:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for one in opened:
            os.close(one)


def called(name):
    call = calls.get(name) or no("there is no such call")
    try:
        return ask(*[pid if one == "pid" else one for one in call])
    except OSError as error:
        # What is refused, by a filter or else, and what this kernel does not have.
        if error.errno in (1, 13, 38, 97):
            raise
        return f"looked at: {error}"


calls = json.loads(${JSON.stringify(JSON.stringify(rawCalls[process.arch] ?? {}))})
try:
    ask = kernel()
except Exception:
    ask = lambda *_: no("calls cannot be made by number")

tries = {
${tries.join("")}}


def tried(attempt):
    try:
        return "got " + repr(attempt())[:200]
    except (OSError, ValueError, MemoryError, ImportError, LookupError, subprocess.SubprocessError, RuntimeError):
        return "refused"


def apart(attempt):
    try:
        here, there = os.pipe()
        child = os.fork()
    except OSError:
        return tried(attempt)
    if child == 0:
        os.write(there, tried(attempt).encode())
        os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as said:
        text = said.read().decode()
    _, status = os.waitpid(child, 0)
    # What became another program has said nothing.
    return text or ("got away" if status == 0 else "refused")


found = {name: apart(attempt) for name, attempt in tries.items()}
environment = ", ".join(sorted(os.environ))
python = " ".join(sys.orig_argv)
result = json.dumps({"found": found, "environment": dict(os.environ), "python": python})
got = [name for name, answer in found.items() if answer != "refused"]
shown = json.loads(${JSON.stringify(JSON.stringify(places.tells ?? []))}) or got
told = ", ".join("".join(c for c in name if c.isalnum() or c == " ") for name in got if name in shown) or "nothing"  # as it can stand in YAML
`;
}

type Call = readonly (number | "pid")[];

/**
 * System calls with arguments that are harmless if they are not refused. Numbers for x86-64 and its x32 ABI, then for
 * arm64.
 */
const rawCalls: Readonly<Record<string, Readonly<Record<string, Call>>>> = {
  x64: {
    socket: [41, 2, 1, 0],
    ptrace: [101, 0x4206, "pid", 0, 0],
    process_vm_readv: [310, "pid", 0, 0, 0, 0, 0],
    pidfd_open: [434, "pid", 0],
    io_uring: [425, 8, 0],
    keyctl: [250, 0, -3, 0],
    bpf: [321, 0, 0, 0],
    userfaultfd: [323, 0],
    unshare: [272, 0x10000000],
    mount: [165, 0, 0, 0, 0, 0],
    setns: [308, 0, 0],
    personality: [135, 0x0040000],
    shmget: [29, 0x746f77, 4096, 0],
    mq_open: [240, 0, 0, 0, 0],
    msgget: [68, 0x746f77, 0],
    prctl: [157, 4, 1, 0, 0, 0],
    setpriority: [141, 0, 0, 10],
    "open of x32": [0x40000000 + 2, 0, 0, 0],
    tee: [276, 0, 1, 1, 2],
    "newer than all": [1000],
  },
  arm64: {
    socket: [198, 2, 1, 0],
    ptrace: [117, 0x4206, "pid", 0, 0],
    process_vm_readv: [270, "pid", 0, 0, 0, 0, 0],
    pidfd_open: [434, "pid", 0],
    io_uring: [425, 8, 0],
    unshare: [97, 0x10000000],
    personality: [92, 0x0040000],
    shmget: [194, 0x746f77, 4096, 0],
    prctl: [167, 4, 1, 0, 0, 0],
    "newer than all": [1000],
  },
};

/** A template that runs the program and prints its findings for `readAttack`. */
export function attackTemplate(program: string): string {
  return `${running(decoded(program))}{{ scope.result | b64encode }}`;
}

export interface Attacked {
  /** What each attempt obtained, by `<aim>: <name>`. */
  readonly found: Readonly<Record<string, string>>;
  readonly environment: Readonly<Record<string, string>>;
  readonly python: string;
}

/** Parses the output of such a template. */
export function readAttack(printed: string): Attacked {
  return JSON.parse(Buffer.from(printed, "base64").toString()) as Attacked;
}

/** The names of the attempts that were not refused. */
export function gotBy({ found }: Attacked): string[] {
  return Object.keys(found).filter((name) => found[name] !== "refused");
}

/** A template that runs the program and prints the names and results of successful attempts, and the environment. */
export function attackInPlace(program: string): string {
  return `${running(decoded(program))}got {{ scope.told }} with {{ scope.environment }}`;
}

const builtins = `cycler.__init__.__globals__["__builtins__"]`;

function decoded(program: string): string {
  return `${builtins}["__import__"]("base64").b64decode("${Buffer.from(program).toString("base64")}")`;
}

function running(code: string): string {
  return `{% set scope = {} %}{% set _ = ${builtins}["exec"](${code}, scope) %}`;
}
