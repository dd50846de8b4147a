/**
 * Filters of system calls, as programs for seccomp. Landlock covers files; what it leaves open (sockets, signals, other
 * processes, the flags of a call) is closed here, on every kernel alike. Pure.
 */
import process from "node:process";
import { architectures, numberOf, type SystemCall } from "./system-calls.ts";

/** A condition on one argument of a call. */
interface Test {
  readonly arg: number;
  /** Its lower 32 bits, of which only these count, are one of the values. */
  readonly mask?: number;
  readonly oneOf: readonly number[];
  /** Whether the upper 32 bits have to be zero as well: of a pointer that has to be null. */
  readonly wide?: boolean;
}

interface Rule {
  readonly calls: readonly SystemCall[];
  /** All of them have to hold. */
  readonly tests?: readonly Test[];
  readonly answer: number;
  /** If one does not hold. */
  readonly otherwise?: number;
}

interface Filter {
  readonly rules: readonly Rule[];
  /** For calls that no rule names. */
  readonly others: number;
  /** For numbers that were given to calls after this was written: a library that finds none uses an older one. */
  readonly unknown: number;
}

type Instruction = readonly [code: number, jumpTrue: number, jumpFalse: number, value: number];

const [load, and, equal, atLeast, end] = [0x20, 0x54, 0x15, 0x35, 0x06];
const [numberAt, architectureAt, argumentsAt] = [0, 4, 16];

const allow = 0x7fff0000;
const kill = 0x80000000;
/** Asks the process that watches. Where there is none, the call fails. */
const ask = 0x7fc00000;
const refuse = (errno: number) => 0x00050000 + errno;
const [eperm, eacces, enosys, eafnosupport] = [1, 13, 38, 97].map(refuse) as [number, number, number, number];

/** The first number that none of the architectures has given away in what this was written from (Linux 6.1). */
const firstUnknown = 451;

/** As hexadecimal digits, ready for the kernel. Empty where the architecture is not known: then there is no filter. */
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

/** Goes on with the code behind it if one of the values is there, and to its last instruction if none is. */
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

/** O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND and __O_TMPFILE, the same on both architectures. */
const writing = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000;

/**
 * A renderer computes and reads; whatever else it could ask of the kernel is refused. With it the oldest Landlock gives
 * the same as the newest.
 */
export function rendererFilter({
  starts,
}: {
  /** Whether it is yet to become the interpreter. */ starts: boolean;
}): string {
  const rules: Rule[] = [
    { calls: harmless, answer: allow },
    { calls: ["open"], tests: [{ arg: 1, mask: writing, oneOf: [0] }], answer: allow, otherwise: eacces },
    { calls: ["openat"], tests: [{ arg: 2, mask: writing, oneOf: [0] }], answer: allow, otherwise: eacces },
    // TCGETS, FIOCLEX, FIONCLEX, TIOCGWINSZ.
    { calls: ["ioctl"], tests: [{ arg: 1, oneOf: [0x5401, 0x5451, 0x5450, 0x5413] }], answer: allow, otherwise: eperm },
    // To duplicate, and the flags of a descriptor; neither F_SETOWN nor F_SETSIG, which send signals.
    { calls: ["fcntl"], tests: [{ arg: 1, oneOf: [0, 1, 2, 3, 1030] }], answer: allow, otherwise: eperm },
    // Its own group alone.
    { calls: ["kill"], tests: [{ arg: 0, oneOf: [0] }], answer: allow, otherwise: eperm },
    // On what is connected already.
    { calls: ["sendto"], tests: [{ arg: 4, oneOf: [0], wide: true }], answer: allow, otherwise: eperm },
    { calls: ["prlimit64"], tests: [{ arg: 0, oneOf: [0] }, { arg: 2, oneOf: [0], wide: true }], answer: allow, otherwise: eperm }, // prettier-ignore
    { calls: ["clone3"], answer: enosys },
  ];
  if (starts) rules.push({ calls: ["execve"], answer: allow });
  return compileFilter({ rules, others: eperm, unknown: enosys });
}

/** Namespaces of every kind. */
const newNamespaces = 0x7e020000;
const fastOpen = 0x20000000;
const [unix, inet, inet6] = [1, 2, 10];
const [stream, typeBits] = [1, 0xf];

/**
 * kluctl and what it starts: as any program, but for what reaches other processes and the kernel's corners, and for
 * sockets that Landlock's rule on ports does not know: datagrams, netlink, MPTCP, and data sent before the connection is
 * made (TCP Fast Open). What may connect to nothing gets no socket of a network, whatever the kernel's Landlock can do.
 */
export function kluctlFilter({
  connects = true,
  watched,
}: {
  readonly connects?: boolean | undefined;
  /** Whether somebody is asked before it connects to anything. */
  readonly watched: boolean;
}): string {
  const noFastOpen = (arg: number): Test => ({ arg, mask: fastOpen, oneOf: [0] });
  return compileFilter({
    rules: [
      { calls: meddling, answer: eperm },
      // What leaves the group would outlive the run.
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
