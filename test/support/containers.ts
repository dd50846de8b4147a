/** Containers of the image, run by the engine that `npm run test:image` has found or started. */
import { execFile } from "node:child_process";
import { copyFile, chmod, chown } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, vi } from "vitest";
import { isEmulated, patience } from "./patience.ts";
import { uniqueName, useTempDir } from "./world.ts";

const run = promisify(execFile);

export const image = process.env["TEST_IMAGE"] ?? "";
/** Passed to the engine, which otherwise warns if the image is for another architecture. */
export const platform = `linux/${process.env["TEST_ARCHITECTURE"] ?? ""}`;

/** The options in docs/image.md. */
const locked = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "host"];

/** Under emulation, starting Node alone exceeds the time limit of the image's health check. */
export const emulatedHealthcheck = { timeout: "60s" };

export interface ContainerOptions {
  readonly user?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Files and directories of this machine that the container can read: paths in it → paths here. */
  readonly reads?: Readonly<Record<string, string>>;
  readonly entrypoint?: string;
  readonly command?: readonly string[];
}

export interface State {
  readonly Status: string;
  readonly ExitCode: number;
  readonly Health?: { readonly Status: string; readonly Log: readonly { readonly Output: string }[] };
}

export interface Container {
  exec(...command: readonly string[]): Promise<string>;
  state(): Promise<State>;
  logs(): Promise<string>;
  /** Sends SIGTERM, and SIGKILL after 30 s. */
  stop(): Promise<State>;
  /** Waits until its HEALTHCHECK reports it as healthy. */
  becomesHealthy(): Promise<void>;
  /** Changes to the container's file system, where it must not write. */
  changes(): Promise<string>;
}

export async function docker(...args: readonly string[]): Promise<string> {
  const { stdout } = await run("docker", [...args], { maxBuffer: 1e8 });
  return stdout.trim();
}

/** Copies the file so that only this user can read it, if this process may change owners. */
export async function fileOf(user: number, path: string): Promise<string> {
  const copy = join(await useTempDir(), "file");
  await copyFile(path, copy);
  await chmod(join(copy, ".."), 0o755);
  const isRoot = process.getuid?.() === 0;
  if (isRoot) await chown(copy, user, 0);
  await chmod(copy, isRoot ? 0o400 : 0o444);
  return copy;
}

export async function useContainer(options: ContainerOptions): Promise<Container> {
  const name = uniqueName("towline-test");
  onTestFinished(async () => void (await docker("rm", "--force", "--volumes", name)));
  const checks = isEmulated ? ["--health-timeout", emulatedHealthcheck.timeout] : [];
  await docker("run", "--detach", "--name", name, ...checks, ...toArgs(options));
  return toContainer(name);
}

/** Runs a container until it exits, and returns its output. */
export async function runContainer(options: ContainerOptions): Promise<string> {
  const { stdout, stderr } = await run("docker", ["run", "--rm", ...toArgs(options)], { maxBuffer: 1e8 });
  return (stdout + stderr).trim();
}

function toArgs({ user, env = {}, reads = {}, entrypoint, command = [] }: ContainerOptions): string[] {
  return [
    ...locked,
    ...["--platform", platform],
    ...(user === undefined ? [] : ["--user", user]),
    ...Object.entries(env).flatMap(([name, value]) => ["--env", `${name}=${value}`]),
    ...Object.entries(reads).flatMap(([path, from]) => ["--volume", `${from}:${path}:ro`]),
    ...(entrypoint === undefined ? [] : ["--entrypoint", entrypoint]),
    image,
    ...command,
  ];
}

export function toContainer(name: string): Container {
  const state = async () => JSON.parse(await docker("inspect", "--format", "{{json .State}}", name)) as State;
  const logs = async () => {
    const { stdout, stderr } = await run("docker", ["logs", name], { maxBuffer: 1e8 });
    return stdout + stderr;
  };
  return {
    state,
    logs,
    exec: (...command) => docker("exec", name, ...command),
    changes: () => docker("diff", name),
    async stop() {
      await docker("stop", "--time", "30", name);
      return state();
    },
    async becomesHealthy() {
      await vi
        .waitFor(async () => expect((await state()).Health?.Status).toBe("healthy"), patience)
        .catch(async (error: unknown) => {
          throw new Error(`${name} did not become healthy: ${JSON.stringify(await state())}\n${await logs()}`, {
            cause: error,
          });
        });
    },
  };
}
