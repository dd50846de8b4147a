/** The program that kluctl starts instead of `python3`. */

export interface StandInPlaces {
  readonly socket: string;
  /** The real interpreter. */
  readonly python: string;
  /** A part of the path of kluctl's renderers. Other programs that run as `python3` are not handled here. */
  readonly renderersIn: string;
}

/**
 * Returns the executable's text. Only its first line counts; what follows it may be padding. It runs the file next to
 * it, whose name has `.py` appended.
 */
export function toLauncher(python: string): string {
  const line = `#!${python} -ISEcexec(open(__import__("sys").argv[1]+".py").read())\n`;
  // Limit in bytes of the path; older kernels truncate the line there.
  if (/\s/.test(python) || Buffer.byteLength(line) > 127)
    throw new Error(`the path ${python} is too long or has a blank`);
  return line;
}

/**
 * Returns the program next to the launcher: it hands over to the fork server and waits for the exit status. Until both
 * sides have agreed it can still become the real Python without losing input, because neither side has read from the
 * descriptors.
 */
export function toStandIn({ socket, python, renderersIn }: StandInPlaces): string {
  const places = [socket, python, renderersIn].map((place) => JSON.stringify(place)).join(", ");
  return `socket, python, renderers_in = ${places}${program}`;
}

// Only built-in modules: it starts five times for each kluctl.
const program = String.raw`
import marshal, posix, sys
import _socket as net

me, args = sys.argv[1], sys.argv[2:]


def is_kluctls():
    if len(args) == 1:
        return args[0].endswith("/main.py") and renderers_in in args[0]
    return len(args) == 2 and args[0] == "-c" and args[1].startswith("import platform")


def hand_over():
    """Returns the exit status, or nothing when there is no server that would take it."""
    conn = net.socket(net.AF_UNIX, net.SOCK_STREAM)
    try:
        request = marshal.dumps((args, posix.getcwdb(), dict(posix.environ)))
        descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
        conn.settimeout(5)
        conn.connect(socket)
        conn.sendmsg([len(request).to_bytes(8, "big")], [(net.SOL_SOCKET, net.SCM_RIGHTS, descriptors)])
        conn.sendall(request)
        if conn.recv(1) != b"+":
            return None
        conn.settimeout(None)
        conn.sendall(b"+")
    except OSError:
        return None
    status = conn.recv(1)
    return status[0] if status else 137


def elsewhere():
    for folder in posix.environ.get(b"PATH", b"").split(b":"):
        path = folder + b"/python3"
        if path != me.encode() and posix.access(path, posix.X_OK):
            return path
    return python


status = hand_over() if is_kluctls() else None
if status is None:
    program = python if is_kluctls() else elsewhere()
    # By its path: it would look for its own name in PATH, and find this file.
    posix.execve(program, [program, *args], posix.environ)
posix._exit(status)
`;
