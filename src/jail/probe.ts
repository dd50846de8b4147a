/**
 * Determines what the kernel offers for confining previews by trying: a program in a jail makes attempts that all have
 * to fail.
 */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { kluctlFilter } from "./filter.ts";
import { inJail, type Jail } from "./jail.ts";

/** Each property is `undefined` if it holds, or says why not and what to do. */
export interface KernelJail {
  /** A preview can neither read nor write files that it was not given. */
  readonly files: string | undefined;
  /** A preview cannot reach processes other than its own. */
  readonly processes: string | undefined;
  /** A preview can connect only to the TCP ports on this machine that it was given. */
  readonly network: string | undefined;
}

const needsLinux = "this is not Linux";
const needsLandlock =
  "Landlock is missing: it needs Linux 5.13 or newer with landlock among its security modules (lsm=), and a container seccomp profile that allows its system calls";
const needsPorts = "Landlock's rules for TCP ports are missing: they need Linux 6.7 or newer";
const needsWatch =
  "connections cannot be monitored: seccomp notifications are missing, or the memory of child processes cannot be read";
const needsSeccomp =
  "seccomp filters cannot be set: the machine must be x86-64 or arm64 and allow unprivileged programs to set them";
const needsPerl = "/usr/bin/perl is missing: install perl-base";

/** Prints the name of each attempt that succeeds. */
const attempts = String.raw`
my ($canary, $port, $pid) = @ARGV;
my $loopback = pack("S n C4 x8", 2, $port, 127, 0, 0, 1);
print "files\n" if open(my $file, "<", $canary) || opendir(my $dir, "/") || open(my $new, ">", "$canary.new");
my $tcp;
print "network\n" if socket($tcp, 2, 1, 0) && connect($tcp, $loopback);
print "processes\n" if socket(my $udp, 2, 2, 0) || socket(my $netlink, 16, 3, 0) || socket(my $mptcp, 2, 1, 262);
my ($ptrace, $prlimit, $seven, $limits) = (${process.arch === "arm64" ? "117, 261" : "101, 302"}, 7, pack("Q2", 64, 64));
my $attach = 16;
print "processes\n" if syscall($ptrace, $attach, $pid + 0, 0, 0) == 0 || syscall($prlimit, $pid + 0, $seven, 0, $limits) == 0;
print "tried all\n";
`;

/** Prints the outcome of connections to an allowed port: on 127.0.0.1, and on another address. */
const connections = String.raw`
my ($port) = @ARGV;
for my $last (1, 2) {
  socket(my $tcp, 2, 1, 0);
  print connect($tcp, pack("S n C4 x8", 2, $port, 127, 0, 0, $last)) ? "connected\n" : "refused\n" x ($! == 13);
}
`;

export async function probeJail(
  workDir: string,
  { abi }: { readonly abi?: number | undefined } = {},
): Promise<KernelJail> {
  if (process.platform !== "linux") return { files: needsLinux, processes: needsLinux, network: needsLinux };
  const dir = await mkdtemp(join(workDir, "probe-"));
  const server = createServer((socket) => socket.end()).listen(0, "127.0.0.1");
  try {
    await once(server, "listening");
    const canary = join(dir, "canary");
    await writeFile(canary, "canary");
    const { port } = server.address() as AddressInfo;
    const jail: Jail = {
      read: ["/dev/null"],
      execute: ["/usr", "/lib", "/lib64", "/bin"],
      write: [],
      ports: [],
      filter: kluctlFilter({ watched: false }),
      limits: {},
      demands: { abi, files: false, network: false },
    };
    const { command, args } = inJail(jail, "/usr/bin/perl", [
      "-e",
      attempts,
      canary,
      String(port),
      String(process.pid),
    ]);
    const found = toJail(await run(command, args));
    if (found.network !== undefined) return found;
    const watched = { filter: kluctlFilter({ watched: true }), sockets: [] };
    const watching = inJail({ ...jail, ports: [port], watched }, "/usr/bin/perl", ["-e", connections, String(port)]);
    const { printed } = await run(watching.command, watching.args);
    return { ...found, network: printed === "connected\nrefused\n" ? undefined : needsWatch };
  } finally {
    server.close();
    await rm(dir, { recursive: true, force: true });
  }
}

function toJail({ printed, missing }: { printed: string; missing: boolean }): KernelJail {
  if (missing) return { files: needsPerl, processes: needsPerl, network: needsPerl };
  const came = new Set(printed.split("\n"));
  // A program that did not run to its end has proved nothing.
  if (!came.has("tried all")) return { files: needsSeccomp, processes: needsSeccomp, network: needsSeccomp };
  return {
    files: came.has("files") ? needsLandlock : undefined,
    processes: came.has("processes") ? needsSeccomp : undefined,
    network: came.has("files") ? needsLandlock : came.has("network") ? needsPorts : undefined,
  };
}

async function run(command: string, args: readonly string[]): Promise<{ printed: string; missing: boolean }> {
  return new Promise((resolve) => {
    execFile(command, args, { env: {}, timeout: 30_000 }, (error, stdout) => {
      resolve({ printed: stdout, missing: error?.code === "ENOENT" });
    });
  });
}
