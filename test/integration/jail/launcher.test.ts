/** Runs a program in kluctl's jail that attempts forbidden actions, and compares it with a run outside the jail. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import { kluctlFilter } from "../../../src/jail/filter.ts";
import { inJail } from "../../../src/jail/jail.ts";
import { startVictim } from "../../support/victim.ts";
import { uniqueName, useTempDir } from "../../support/world.ts";

/** Prints the name of each attempt that succeeds. The syscall numbers are those of x86-64 and arm64. */
const [ptrace, prlimit, setpriority, unshare, memfd, shmget] =
  process.arch === "arm64" ? [117, 261, 140, 97, 279, 194] : [101, 302, 141, 272, 319, 29];
const program = String.raw`
use Socket;
my ($canary, $written, $port, $allowed, $pid, $abstract) = @ARGV;
my ($seize, $seven, $sixty, $zero, $ten) = (0x4206, 7, pack("Q2", 64, 64), 0, 10);
my $to = sub { sockaddr_in($_[0], INADDR_LOOPBACK) };
my $stream = sub { socket(my $one, PF_INET, SOCK_STREAM, $_[0] // 0) or return; $one };
my %tries = (
  "reads a file" => sub { open(my $file, "<", $canary) },
  "lists a directory" => sub { opendir(my $dir, "/") },
  "writes a file" => sub { open(my $file, ">", $written) },
  "empties a file" => sub { sysopen(my $file, $canary, 01000) },
  "reads what was left open" => sub { my $file; open($file, "<&=", 9) && sysread($file, my $text, 6) },
  "connects by TCP" => sub { my $one = $stream->() or return; connect($one, $to->($port)) },
  "connects by MPTCP" => sub { my $one = $stream->(262) or return; connect($one, $to->($port)) },
  "connects by Fast Open" => sub { my $one = $stream->() or return; defined send($one, "x", 0x20000000, $to->($port)) },
  "sends UDP" => sub { my $one; socket($one, PF_INET, SOCK_DGRAM, 0) && defined send($one, "x", 0, $to->(53)) },
  "asks netlink" => sub { socket(my $one, 16, SOCK_RAW, 0) },
  "connects to an abstract socket" => sub {
    my $one;
    socket($one, PF_UNIX, SOCK_STREAM, 0) && connect($one, pack("S a*", 1, "\0$abstract"));
  },
  "signals" => sub { kill(0, $pid) },
  "traces" => sub { syscall(${ptrace}, $seize, $pid + 0, $zero, $zero) == 0 },
  "sets limits" => sub { syscall(${prlimit}, $pid + 0, $seven, $sixty, 0) == 0 },
  "sets a priority" => sub { my $who = $pid + 0; syscall(${setpriority}, $zero, $who, $ten) == 0 },
  "makes a namespace" => sub { my $users = 0x10000000; syscall(${unshare}, $users) == 0 },
  "makes a file of memory" => sub { my $name = "x"; syscall(${memfd}, $name, $zero) >= 0 },
  "asks for shared memory" => sub { my ($key, $size) = (0x746f77, 4096); syscall(${shmget}, $key, $size, $zero) >= 0 || $!{ENOENT} },
  "connects where it may" => sub { my $one = $stream->() or return; connect($one, $to->($allowed)) },
);
for my $name (sort keys %tries) { print "$name\n" if $tries{$name}->() }
print "tried all\n";
`;

async function useTries() {
  const [dir, victim] = await Promise.all([useTempDir(), startVictim()]);
  onTestFinished(() => void victim.child.kill("SIGKILL"));
  const canary = join(dir, "canary");
  await writeFile(canary, "CANARY");
  const abstract = uniqueName("towline");
  const listen = async (at: number | string) => {
    const server = createServer((socket) => socket.destroy());
    if (typeof at === "string") server.listen(at);
    else server.listen(at, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  };
  const [port, allowed] = [await listen(0), await listen(0)];
  await listen(`\0${abstract}`);
  const args = ["-e", program, canary, join(dir, "written"), port, allowed, victim.pid, abstract].map(String);
  await writeFile(join(dir, "left"), "CANARY");
  const descriptor = openSync(join(dir, "left"), "r");
  onTestFinished(() => closeSync(descriptor));

  /** With the Landlock version `abi`; `undefined` means without a jail. */
  return async (abi: number | undefined, isWatched = false): Promise<string[]> => {
    const demands = { abi, files: false, network: false };
    const [read, execute] = [["/dev/null"], ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache"]];
    const filter = kluctlFilter({ watched: false });
    const watched = isWatched ? { filter: kluctlFilter({ watched: true }), sockets: [] } : undefined;
    const jail = { read, execute, write: [], ports: [allowed], filter, watched, limits: {}, demands };
    const confined = inJail(jail, "/usr/bin/perl", args);
    const { command, args: own } = abi === undefined ? { command: "/usr/bin/perl", args } : confined;
    const stdio = ["ignore", "pipe", "inherit", ...Array.from({ length: 6 }, () => "ignore" as const), descriptor];
    const child = spawn(command, own, { env: {}, stdio: stdio as ["ignore", "pipe", "inherit"] });
    const lines = (await text(child.stdout)).trimEnd().split("\n");
    expect(lines.at(-1)).toBe("tried all");
    return lines.slice(0, -1);
  };
}

/** Attempts that a kernel or user may not be able to do anyway. */
const mayLack = ["makes a namespace", "connects by MPTCP", "traces"];
/** Attempts that older versions of Landlock cannot prevent, by the version that introduced it. */
const since = [
  ["reads a file", 1],
  ["lists a directory", 1],
  ["writes a file", 1],
  ["empties a file", 1],
  ["connects by TCP", 4],
  ["signals", 6],
  ["connects to an abstract socket", 6],
] as const;

test("attempts that kluctl's jail prevents succeed outside it", async () => {
  const tries = await useTries();
  const free = await tries(undefined);
  expect([...free, ...mayLack]).toEqual(
    expect.arrayContaining([
      ...[
        "asks for shared memory",
        "asks netlink",
        "connects by Fast Open",
        "connects by TCP",
        "connects where it may",
      ],
      ...["lists a directory", "makes a file of memory", "reads a file", "reads what was left open", "sends UDP"],
      ...["sets a priority", "sets limits", "signals", "writes a file", "empties a file"],
      "connects to an abstract socket",
    ]),
  );
});

describe.each([false, true])("with connections watched: %s,", (isWatched) => {
  test.each([0, 1, 2, 3, 4, 5, 6])("kluctl's jail prevents everything that Landlock version %i can", async (abi) => {
    const tries = await useTries();
    const got = await tries(abi, isWatched);
    const missing = since
      .filter(([name, version]) => version > abi && !(isWatched && name.startsWith("connects")))
      .map(([name]) => name);
    expect(got).toEqual([...missing, "connects where it may"].toSorted());
  });
});
