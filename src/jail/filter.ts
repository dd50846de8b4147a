/**
 * System call filters, as programs for seccomp. Landlock covers files; the filters block what it leaves open (sockets,
 * signals, other processes, flags of calls), on every kernel alike. Pure.
 */
import process from "node:process";
import { architectures, numberOf, type SystemCall } from "./system-calls.ts";

/** A condition on one argument of a call. */
interface Test {
  readonly arg: number;
  /**
   * The argument's lower 32 bits, masked with `mask`, must be one of `oneOf`. The upper 32 bits are ignored unless
   * `wide`.
   */
  readonly mask?: number;
  readonly oneOf: readonly number[];
  /** Whether the upper 32 bits must be zero too, e.g. for a pointer that must be null. */
  readonly wide?: boolean;
}

interface Rule {
  readonly calls: readonly SystemCall[];
  /** All of them must hold. */
  readonly tests?: readonly Test[];
  readonly answer: number;
  /** The answer if a test fails. */
  readonly otherwise?: number;
}

interface Filter {
  readonly rules: readonly Rule[];
  /** The answer for calls without a rule. */
  readonly others: number;
  /** The answer for system calls that are newer than this file: with ENOSYS, a library falls back to an older call. */
  readonly unknown: number;
}

type Instruction = readonly [code: number, jumpTrue: number, jumpFalse: number, value: number];

const [load, and, equal, atLeast, end] = [0x20, 0x54, 0x15, 0x35, 0x06];
const [numberAt, architectureAt, argumentsAt] = [0, 4, 16];

const allow = 0x7fff0000;
const kill = 0x80000000;
/** Asks the supervising process. Without one, the call fails. */
const ask = 0x7fc00000;
const refuse = (errno: number) => 0x00050000 + errno;
const [eperm, eacces, enosys, eafnosupport] = [1, 13, 38, 97].map(refuse) as [number, number, number, number];

/**
 * The first number that no architecture used in the system call tables of Linux 6.1, which the numbers here come from.
 */
const firstUnknown = 451;

/**
 * Returns the program in hexadecimal, as the kernel takes it. Empty on an unknown architecture: then there is no
 * filter.
 */
function compileFilter({ rules, others, unknown }: Filter, arch: string = process.arch): string {
  const architecture = architectures[arch];
  if (architecture === undefined) return "";
  const { audit, foreignFrom } = architecture;
  const code: Instruction[] = [
    [load, 0, 0, architectureAt],
    [equal, 1, 0, audit],
    [end, 0, 0, kill],
    [load, 0, 0, numberAt],
  ];
  if (foreignFrom !== undefined) code.push([atLeast, 0, 1, foreignFrom], [end, 0, 0, enosys]);
  for (const { calls, tests = [], answer, otherwise = answer } of rules) {
    for (const call of calls) {
      const number = numberOf(call, arch);
      if (number === undefined) continue;
      const block = compileTests(tests, answer, otherwise);
      code.push([equal, 0, block.length, number], ...block);
    }
  }
  code.push([atLeast, 0, 1, firstUnknown], [end, 0, 0, unknown], [end, 0, 0, others]);
  const bytes = Buffer.alloc(code.length * 8);
  for (const [at, [operation, jumpTrue, jumpFalse, value]] of code.entries()) {
    bytes.writeUInt16LE(operation, at * 8);
    bytes.writeUInt8(jumpTrue, at * 8 + 2);
    bytes.writeUInt8(jumpFalse, at * 8 + 3);
    bytes.writeUInt32LE(value >>> 0, at * 8 + 4);
  }
  return bytes.toString("hex");
}

function compileTests(tests: readonly Test[], answer: number, otherwise: number): Instruction[] {
  let code: Instruction[] = tests.length === 0 ? [[end, 0, 0, answer]] : [[end, 0, 0, answer], [end, 0, 0, otherwise]]; // prettier-ignore
  for (const { arg, mask, oneOf, wide } of tests.toReversed()) {
    const word = argumentsAt + 8 * arg;
    const upper = wide ? compare(word + 4, undefined, [0], code) : code;
    code = compare(word, mask, oneOf, upper);
  }
  return code;
}

/**
 * Continues with `behind` if the word equals one of the values; otherwise jumps to the last instruction of `behind`.
 */
function compare(
  at: number,
  mask: number | undefined,
  values: readonly number[],
  behind: readonly Instruction[],
): Instruction[] {
  const jumps = values.map((value, index): Instruction => {
    const left = values.length - 1 - index;
    return [equal, left, left === 0 ? behind.length - 1 : 0, value];
  });
  return [[load, 0, 0, at], ...(mask === undefined ? [] : [[and, 0, 0, mask] as const]), ...jumps, ...behind];
}

/** O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND and __O_TMPFILE; the same on both architectures. */
const writing = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000;

/**
 * Filter for renderers: they compute and read; any other system call is denied. With this filter, the oldest Landlock
 * version isolates as well as the newest.
 */
export function rendererFilter({
  starts,
}: {
  /** Whether the process still has to become the interpreter. */ starts: boolean;
}): string {
  const rules: Rule[] = [
    { calls: harmless, answer: allow },
    { calls: ["open"], tests: [{ arg: 1, mask: writing, oneOf: [0] }], answer: allow, otherwise: eacces },
    { calls: ["openat"], tests: [{ arg: 2, mask: writing, oneOf: [0] }], answer: allow, otherwise: eacces },
    // TCGETS, FIOCLEX, FIONCLEX, TIOCGWINSZ.
    { calls: ["ioctl"], tests: [{ arg: 1, oneOf: [0x5401, 0x5451, 0x5450, 0x5413] }], answer: allow, otherwise: eperm },
    // Duplicating, and the flags of a descriptor; not F_SETOWN or F_SETSIG, which can send signals.
    { calls: ["fcntl"], tests: [{ arg: 1, oneOf: [0, 1, 2, 3, 1030] }], answer: allow, otherwise: eperm },
    // Only its own process group.
    { calls: ["kill"], tests: [{ arg: 0, oneOf: [0] }], answer: allow, otherwise: eperm },
    // Only on connected sockets.
    { calls: ["sendto"], tests: [{ arg: 4, oneOf: [0], wide: true }], answer: allow, otherwise: eperm },
    { calls: ["prlimit64"], tests: [{ arg: 0, oneOf: [0] }, { arg: 2, oneOf: [0], wide: true }], answer: allow, otherwise: eperm }, // prettier-ignore
    { calls: ["clone3"], answer: enosys },
  ];
  if (starts) rules.push({ calls: ["execve"], answer: allow });
  return compileFilter({ rules, others: eperm, unknown: enosys });
}

/** Flags that create namespaces of any kind. */
const newNamespaces = 0x7e020000;
const fastOpen = 0x20000000;
const [unix, inet, inet6] = [1, 2, 10];
const [stream, typeBits] = [1, 0xf];

/**
 * Filter for kluctl and the processes it starts. It allows what any program may do, except access to other processes,
 * privileged or obscure kernel interfaces, and sockets that Landlock's port rules do not cover: datagrams, netlink,
 * MPTCP, and data sent before the connection is made (TCP Fast Open). With `connects: false` no network sockets can be
 * created at all, whatever the kernel's Landlock supports.
 */
export function kluctlFilter({
  connects = true,
  watched,
}: {
  readonly connects?: boolean | undefined;
  /** Whether a supervising process decides about each connection. */
  readonly watched: boolean;
}): string {
  const noFastOpen = (arg: number): Test => ({ arg, mask: fastOpen, oneOf: [0] });
  return compileFilter({
    rules: [
      { calls: meddling, answer: eperm },
      // A process that leaves the group would outlive the run.
      { calls: ["setsid", "setpgid"], answer: eperm },
      { calls: ["clone"], tests: [{ arg: 0, mask: newNamespaces, oneOf: [0] }], answer: allow, otherwise: eperm },
      { calls: ["clone3"], answer: enosys },
      {
        calls: ["socket"],
        tests: [
          { arg: 0, oneOf: connects ? [unix, inet, inet6] : [unix] },
          { arg: 1, mask: typeBits, oneOf: [stream] },
          { arg: 2, oneOf: [0, 6] }, // TCP
        ],
        answer: allow,
        otherwise: eafnosupport,
      },
      { calls: ["sendto", "sendmmsg"], tests: [noFastOpen(3)], answer: allow, otherwise: eperm },
      { calls: ["sendmsg"], tests: [noFastOpen(2)], answer: allow, otherwise: eperm },
      { calls: ["prlimit64"], tests: [{ arg: 0, oneOf: [0] }], answer: allow, otherwise: eperm },
      { calls: ["connect"], answer: watched ? ask : allow },
    ],
    others: allow,
    unknown: enosys,
  });
}

const harmless: readonly SystemCall[] = [
  "read",
  "write",
  "close",
  "fstat",
  "newfstatat",
  "statx",
  "stat",
  "lstat",
  "lseek",
  "mmap",
  "mprotect",
  "munmap",
  "mremap",
  "madvise",
  "brk",
  "poll",
  "ppoll",
  "select",
  "pselect6",
  "futex",
  "getdents64",
  "getdents",
  "readlink",
  "readlinkat",
  "access",
  "faccessat",
  "faccessat2",
  "clock_gettime",
  "clock_getres",
  "clock_nanosleep",
  "nanosleep",
  "gettimeofday",
  "time",
  "getpid",
  "getppid",
  "gettid",
  "getuid",
  "geteuid",
  "getgid",
  "getegid",
  "getpgid",
  "getpgrp",
  "getsid",
  "getresuid",
  "getresgid",
  "getgroups",
  "exit",
  "exit_group",
  "getrandom",
  "rt_sigaction",
  "rt_sigprocmask",
  "rt_sigreturn",
  "sigaltstack",
  "restart_syscall",
  "dup",
  "dup2",
  "dup3",
  "pread64",
  "readv",
  "writev",
  "getcwd",
  "uname",
  "sysinfo",
  "getrusage",
  "times",
  "sched_yield",
  "sched_getaffinity",
  "arch_prctl",
  "set_tid_address",
  "set_robust_list",
  "rseq",
  "getrlimit",
  "fadvise64",
  "umask",
  "recvfrom",
  "membarrier",
  "statfs",
  "fstatfs",
];

const meddling: readonly SystemCall[] = [
  "ptrace",
  "process_vm_readv",
  "process_vm_writev",
  "pidfd_getfd",
  "kcmp",
  "process_madvise",
  "process_mrelease",
  "mount",
  "umount2",
  "pivot_root",
  "chroot",
  "unshare",
  "setns",
  "open_tree",
  "move_mount",
  "fsopen",
  "fsconfig",
  "fsmount",
  "fspick",
  "mount_setattr",
  "quotactl",
  "swapon",
  "swapoff",
  "acct",
  "keyctl",
  "add_key",
  "request_key",
  "bpf",
  "io_uring_setup",
  "io_uring_enter",
  "io_uring_register",
  "perf_event_open",
  "userfaultfd",
  "init_module",
  "finit_module",
  "delete_module",
  "kexec_load",
  "kexec_file_load",
  "personality",
  "open_by_handle_at",
  "name_to_handle_at",
  "memfd_create",
  "memfd_secret",
  "vmsplice",
  "shmget",
  "shmat",
  "shmctl",
  "shmdt",
  "msgget",
  "msgsnd",
  "msgrcv",
  "msgctl",
  "semget",
  "semop",
  "semctl",
  "semtimedop",
  "mq_open",
  "mq_unlink",
  "mq_timedsend",
  "mq_timedreceive",
  "mq_notify",
  "mq_getsetattr",
  "setpriority",
  "ioprio_set",
  "sched_setaffinity",
  "sched_setscheduler",
  "sched_setattr",
  "sched_setparam",
  "move_pages",
  "migrate_pages",
  "reboot",
  "sethostname",
  "setdomainname",
  "syslog",
  "settimeofday",
  "clock_settime",
  "clock_adjtime",
  "adjtimex",
  "fanotify_init",
  "fanotify_mark",
  "vhangup",
  "mknod",
  "mknodat",
  "iopl",
  "ioperm",
  "modify_ldt",
  "uselib",
  "setrlimit",
  "rt_sigqueueinfo",
  "rt_tgsigqueueinfo",
  "setxattr",
  "lsetxattr",
  "fsetxattr",
];
