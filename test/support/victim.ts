/**
 * A target process for attacks: of the same user and without capabilities, like a server in a pod, with a secret in its
 * environment.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

export interface Victim {
  readonly pid: number;
  readonly child: ChildProcess;
}

export async function startVictim(): Promise<Victim> {
  const capset = process.arch === "arm64" ? 91 : 126;
  const drop = `my ($header, $none) = (pack("L l", 0x20080522, 0), pack("L6", (0) x 6)); syscall(${capset}, $header, $none)`;
  const child = spawn("/usr/bin/perl", ["-e", `$| = 1; ${drop}; print "up\\n"; sleep 600`], {
    env: { SERVER_SECRET: "CANARY-environment" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit").then(() => Promise.reject(new Error("the victim did not start")));
  await Promise.race([once(child.stdout, "data"), ended]);
  ended.catch(() => undefined); // it is killed at the end
  return { pid: child.pid ?? 0, child };
}
