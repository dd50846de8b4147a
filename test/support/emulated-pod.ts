/**
 * The limits of a container in a restricted pod, without a container engine: a user without capabilities, no new
 * privileges, a root file system that is read-only except for one directory, process and IPC namespaces of its own, and
 * the default seccomp profiles of Docker and containerd. Those profiles list the allowed calls; here, the calls are
 * refused that they do not list and that matter to this project or to an attack. The network, /sys and cgroups stay the
 * machine's.
 *
 * It needs the rights of `unshare`: root, or user namespaces for ordinary users. Without them, the root file system is
 * writable as far as that user may write, and the process table is the machine's; the rest is the same.
 */
import { execFileSync } from "node:child_process";
import { chown, mkdir } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { numberOf, type SystemCall } from "../../src/jail/system-calls.ts";

export interface Pod {
  /** It has namespaces of its own, and therefore a read-only root. */
  readonly whole: boolean;
  /** The only directory it can write to; no other user has access to it. */
  readonly data: string;
  /** User id of its processes. */
  readonly uid: number;
  /** Translates a path of the machine that was given to `createPod` to the path in the pod. */
  at(path: string): string;
  command(command: string, args: readonly string[]): { command: string; args: string[] };
}

/** A user id that is not in use on the machine. */
const podUser = 65_532;

/**
 * Creates a pod in a directory that every user may enter. `mounts` are readable in the pod wherever they are on the
 * machine.
 */
export async function createPod(dir: string, mounts: Readonly<Record<string, string>>): Promise<Pod> {
  const root = process.getuid?.() === 0;
  const whole = mayUnshare(root);
  const data = join(dir, "data");
  const [places, lines]: [Map<string, string>, string[]] = [new Map(), []];
  await mkdir(data, { mode: 0o700 });
  if (root) await chown(data, podUser, podUser);
  for (const [name, path] of whole ? Object.entries(mounts) : []) {
    places.set(path, join(dir, name));
    await mkdir(join(dir, name));
    lines.push(`bind ${path} ${join(dir, name)}`);
  }
  if (whole) lines.push(`write ${data}`);
  if (root) lines.push(`user ${podUser}`);
  lines.push(`filter ${defaultProfile()}`);
  const namespaces = ["--mount", "--pid", "--ipc", "--fork", "--kill-child", ...(root ? [] : ["--map-root-user"])];
  const inside = ["/usr/bin/perl", "-e", program(), lines.join("\n")];
  const [first = "", ...others] = whole ? ["unshare", ...namespaces, ...inside] : inside;
  return {
    whole,
    data,
    uid: root ? podUser : whole ? 0 : (process.getuid?.() ?? 0),
    at: (path) => places.get(path) ?? path,
    command: (command, args) => ({ command: first, args: [...others, command, ...args] }),
  };
}

function mayUnshare(root: boolean): boolean {
  try {
    const own = root ? [] : ["--map-root-user"];
    // In some containers a process namespace can be created, but its /proc cannot be mounted.
    execFileSync("unshare", ["--mount-proc", "--pid", "--ipc", "--fork", ...own, "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

const refused: readonly SystemCall[] = [
  ...(["mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_tree", "move_mount", "fsopen"] as const),
  ...(["fsconfig", "fsmount", "fspick", "mount_setattr", "quotactl", "swapon", "swapoff", "acct", "keyctl"] as const),
  ...(["add_key", "request_key", "bpf", "io_uring_setup", "io_uring_enter", "io_uring_register"] as const),
  ...(["perf_event_open", "userfaultfd", "init_module", "finit_module", "delete_module", "kexec_load"] as const),
  ...(["kexec_file_load", "open_by_handle_at", "pidfd_getfd", "move_pages", "reboot", "sethostname"] as const),
  ...(["setdomainname", "syslog", "settimeofday", "clock_settime", "fanotify_init", "vhangup", "iopl"] as const),
  "ioperm",
];

/** Returns the seccomp program in hexadecimal digits. */
function defaultProfile(): string {
  const [load, and, equal, end] = [0x20, 0x54, 0x15, 0x06];
  const [allow, eperm, enosys] = [0x7fff0000, 0x00050001, 0x00050026];
  const namespaces = 0x7e020000;
  const code: [number, number, number, number][] = [[load, 0, 0, 0]];
  for (const number of refused.map((call) => numberOf(call)).filter((number) => number !== undefined)) {
    code.push([equal, 0, 1, number], [end, 0, 0, eperm]);
  }
  code.push([equal, 0, 1, numberOf("clone3") ?? 0], [end, 0, 0, enosys]);
  code.push([equal, 0, 5, numberOf("clone") ?? 0], [load, 0, 0, 16], [and, 0, 0, namespaces], [equal, 0, 1, 0]);
  code.push([end, 0, 0, allow], [end, 0, 0, eperm]);
  // Refuses vsock and AF_ALG (kernel crypto) sockets.
  code.push([equal, 0, 4, numberOf("socket") ?? 0], [load, 0, 0, 16], [equal, 1, 0, 40], [equal, 0, 1, 38]);
  code.push([end, 0, 0, eperm], [end, 0, 0, allow]);
  const bytes = Buffer.alloc(code.length * 8);
  for (const [at, [operation, jumpTrue, jumpFalse, value]] of code.entries()) {
    bytes.writeUInt16LE(operation, at * 8);
    bytes.writeUInt8(jumpTrue, at * 8 + 2);
    bytes.writeUInt8(jumpFalse, at * 8 + 3);
    bytes.writeUInt32LE(value, at * 8 + 4);
  }
  return bytes.toString("hex");
}

/** Returns the Perl program with the architecture's numbers of the system calls for which Perl has no function. */
function program(): string {
  const [mount, setgroups, setgid, setuid, prctl, seccomp, capset] =
    process.arch === "arm64" ? [40, 159, 144, 146, 167, 277, 91] : [165, 116, 106, 105, 157, 317, 126];
  return String.raw`
my $lines = shift @ARGV;
my ($mount, $setgroups, $setgid, $setuid, $prctl, $seccomp, $capset, $mount_setattr) = (
  ${[mount, setgroups, setgid, setuid, prctl, seccomp, capset, 442].join(", ")});
my ($none, $root, $proc, $here, $all) = ("", "/", "proc", -100, 0x8000);
my ($bind, $plain, $zero) = (4096, 14, 0);
my (@write, $user, $filter, $apart);
for (split /\n/, $lines) {
  my ($name, $value, $to) = split / /;
  if ($name eq "bind") {
    $apart = 1;
    syscall($mount, $value, $to, $none, $bind, $zero) == 0 or die "bind $value: $!";
  }
  elsif ($name eq "write") {
    push @write, $value;
    syscall($mount, $value, $value, $none, $bind, $zero) == 0 or die "bind $value: $!";
  }
  elsif ($name eq "user") { $user = $value + 0 }
  elsif ($name eq "filter") { $filter = pack("H*", $value) }
}
if (@write) {
  my $place = "/proc";
  syscall($mount, $proc, $place, $proc, $plain, $zero) == 0 or die "proc: $!";
  my ($locked, $open, $size) = (pack("Q4", 1, 0, 0, 0), pack("Q4", 0, 1, 0, 0), 32);
  syscall($mount_setattr, $here, $root, $all, $locked, $size) == 0 or die "read-only: $!";
  for my $path (@write) {
    syscall($mount_setattr, $here, $path, $zero, $open, $size) == 0 or die "writable $path: $!";
  }
}
if (defined $user) {
  my $drop = 24;
  for my $number (0 .. 63) { syscall($prctl, $drop, $number, 0, 0, 0) }
  my $groups = pack("L", $user);
  my $one = 1;
  syscall($setgroups, $one, $groups) == 0 or die "groups: $!";
  syscall($setgid, $user) == 0 or die "group: $!";
  syscall($setuid, $user) == 0 or die "user: $!";
}
my ($no_new_privileges, $on) = (38, 1);
syscall($prctl, $no_new_privileges, $on, 0, 0, 0) == 0 or die "no_new_privs: $!";
my ($header, $empty) = (pack("L l", 0x20080522, 0), pack("L6", 0, 0, 0, 0, 0, 0));
syscall($capset, $header, $empty) == 0 or die "capabilities: $!";
my $code = pack("S x6 P", length($filter) / 8, $filter);
my ($mode, $flags) = (1, 0);
syscall($seccomp, $mode, $flags, $code) == 0 or die "seccomp: $!";
exec { $ARGV[0] } @ARGV or die "$ARGV[0]: $!";
`;
}
