/**
 * Python code that confines a renderer forked from the fork server, by making the system calls itself. It takes half a
 * millisecond. kluctl's Pythons have the `_ctypes` module, though not always the library around it. Up to 2.22 they are
 * linked statically on x86-64, so the `syscall` function cannot be looked up; then the code brings its own, of 21
 * bytes.
 */
export const confiningInPython = String.raw`
def kernel():
    """Returns what has the kernel run a call by its number, and raises what the kernel says no with."""
    import _ctypes

    class Long(_ctypes._SimpleCData):
        _type_ = "l"

    class Function(_ctypes.CFuncPtr):
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = Long

    try:
        call = Function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall"))
        page = None
    except OSError:
        page = own_function(_ctypes)
        call = Function(_ctypes.addressof(page))

    def ask(number, *args):
        wide = [arg if isinstance(arg, bytes) or arg is None else Long(arg) for arg in args]
        result = call(Long(number), *wide)
        if result < 0:
            code = _ctypes.get_errno() if page is None else -result
            raise OSError(code, os.strerror(code))
        return result

    return ask


# Moves the arguments of a function to where the kernel reads those of a call, and calls it.
OWN_FUNCTION = {"x86_64": "4889f8 4889f7 4889d6 4889ca 4d89c2 4d89c8 0f05 c3"}


def own_function(_ctypes):
    import mmap

    class Char(_ctypes._SimpleCData):
        _type_ = "c"

    executable = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=executable)
    page.write(bytes.fromhex(OWN_FUNCTION[os.uname().machine]))
    return Char.from_buffer(page)


CALLS = {"x86_64": (157, 317, 126), "aarch64": (167, 277, 91)}


def confine(jail, reads):
    """Whatever fails here raises, and then nothing may be rendered."""
    import struct

    ask = kernel()
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
    kept = array.array("B", code)
    ask(seccomp, 1, 0, struct.pack("=HxxxxxxQ", len(code) // 8, kept.buffer_info()[0]))


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
