/**
 * What confines a renderer that is a copy of the fork server: its own Python asks the kernel, by way of `ctypes`. It takes
 * half a millisecond. A Python that is linked statically has no `ctypes`: its fork server does not start for previews.
 */
export const confiningInPython = String.raw`
def system():
    """Calls the kernel by number, and raises what it says no with."""
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long

    def ask(number, *args):
        wide = [arg if isinstance(arg, bytes) or arg is None else ctypes.c_long(arg) for arg in args]
        result = call(ctypes.c_long(number), *wide)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    return ask, ctypes


CALLS = {"x86_64": (157, 317, 126), "aarch64": (167, 277, 91)}


def confine(jail, reads):
    """Whatever fails here raises, and then nothing may be rendered."""
    import struct

    ask, ctypes = system()
    prctl, seccomp, capset = CALLS[os.uname().machine]
    ask(prctl, 38, 1, 0, 0, 0)
    ask(capset, struct.pack("=Ii", 0x20080522, 0), bytes(24))
    try:
        abi = ask(444, None, 0, 1)
    except OSError:
        abi = 0
    abi = min(abi, jail.get("abi", abi))
    if abi < 1 and jail["demandsFiles"]:
        raise OSError("this kernel has no Landlock, which keeps files apart")
    if abi >= 1:
        handled = 65535 if abi >= 5 else 32767 if abi >= 3 else 16383 if abi >= 2 else 8191
        rules = struct.pack("=QQQ", handled, 3 if abi >= 4 else 0, 3)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
        ruleset = ask(444, rules, len(rules), 0)
        for path in jail["read"] + reads:
            try:
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue  # what is not there needs no rule
            access = 12 if os.path.isdir(path) else 4
            ask(445, ruleset, 1, struct.pack("=Qi", access, place), 0)
            os.close(place)
        ask(446, ruleset, 0)
        os.close(ruleset)
    limits = jail["limits"]
    bound(resource.RLIMIT_CORE, 0)
    bound(resource.RLIMIT_DATA, limits["data"])
    bound(resource.RLIMIT_NOFILE, limits["files"])
    bound(resource.RLIMIT_FSIZE, limits["fileSize"])
    bound(resource.RLIMIT_CPU, limits["cpu"])
    code = bytes.fromhex(jail["filter"])
    if not code:
        raise OSError("there is no filter for this processor")
    kept = ctypes.create_string_buffer(code, len(code))
    ask(seccomp, 1, 0, struct.pack("=Hxxxxxx", len(code) // 8) + struct.pack("=Q", ctypes.addressof(kept)))


def prove_confined(jail):
    """Tries what no renderer may: the kernel's word alone is not enough."""
    pid = os.fork()
    if pid == 0:
        os._exit(try_to_break_out(jail))
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise OSError(f"a renderer cannot be confined here (status {status})")


def try_to_break_out(jail):
    try:
        confine(jail, [])
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
        return 1
    tries = [
        lambda: os.fork(),
        lambda: socket.socket(socket.AF_UNIX),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        lambda: os.kill(os.getppid(), 0),
        lambda: os.open(os.devnull, os.O_WRONLY),
        lambda: os.execv(sys.executable, [sys.executable]),
    ]
    if jail["demandsFiles"]:
        tries += [lambda: os.open("/proc/self/environ", os.O_RDONLY), lambda: os.listdir("/")]
    for number, attempt in enumerate(tries):
        try:
            attempt()
            return 10 + number
        except OSError:
            pass
    return 0
`;
