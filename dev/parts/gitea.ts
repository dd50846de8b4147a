/** A real git host: Gitea on the loopback interface, with an administrator and a token of that account. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { access, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { ToolPaths } from "../tools.ts";
import { freePort } from "./port.ts";
import { startProcess } from "./process.ts";

export interface GiteaOptions {
  readonly tools: ToolPaths<"gitea">;
  readonly stateDir: string;
  /** The address to listen on; that of the loopback interface if absent. */
  readonly host?: string | undefined;
}

/** The login of a client; see gitea-client.ts. */
export interface GiteaLogin {
  readonly url: string;
  readonly user: string;
  readonly token: string;
}

export interface Gitea extends GiteaLogin {
  stop(): Promise<void>;
}

const run = promisify(execFile);
const user = "ada";

export async function startGitea({ tools, stateDir, host = "127.0.0.1" }: GiteaOptions): Promise<Gitea> {
  const dir = join(stateDir, "gitea");
  await mkdir(join(dir, "home"), { recursive: true });
  const port = await freePort();
  const config = join(dir, "app.ini");
  await writeFile(config, await configuration(tools.gitea, dir, `${host}:${port}`), { mode: 0o600 });
  const env = {
    PATH: process.env["PATH"],
    HOME: join(dir, "home"),
    GITEA_WORK_DIR: dir,
    USER: process.env["USER"] ?? "git",
  };
  const gitea = async (...args: string[]) => {
    const { stdout } = await run(tools.gitea, [...args, "--config", config, "--work-path", dir], { env, cwd: dir });
    return stdout.trim();
  };

  await gitea("migrate");
  const password = randomBytes(18).toString("base64url");
  const account = ["--username", user, "--password", password, "--email", "ada@example.com", "--admin"];
  await gitea("admin", "user", "create", ...account, "--must-change-password=false");
  const answer = await gitea("admin", "user", "generate-access-token", "--username", user, "--scopes", "all", "--raw");
  const token = answer.split("\n").at(-1) ?? ""; // when run as root, a warning comes first

  const args = ["web", "--config", config, "--work-path", dir];
  const logFile = join(stateDir, "logs", "gitea.log");
  const web = await startProcess({ name: "gitea", command: tools.gitea, args, logFile, env, cwd: dir });
  const url = `http://${host}:${port}`;
  try {
    await web.ready(async () => (await fetch(`${url}/api/healthz`, { signal: AbortSignal.timeout(2_000) })).ok);
  } catch (error) {
    await web.stop();
    throw error;
  }
  return { url, user, token, stop: () => web.stop() };
}

async function configuration(binary: string, dir: string, address: string): Promise<string> {
  // A release embeds its templates; for a build from modules they are beside the program.
  const beside = dirname(binary);
  const [host, port] = address.split(":");
  const hasTemplates = await access(join(beside, "templates")).then(
    () => true,
    () => false,
  );
  return `
APP_NAME = Towline's git host
RUN_MODE = prod
WORK_PATH = ${dir}
${process.getuid?.() === 0 ? "I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true" : ""}

[server]
HTTP_ADDR = ${host}
HTTP_PORT = ${port}
ROOT_URL = http://${address}/
DISABLE_SSH = true
OFFLINE_MODE = true
${hasTemplates ? `STATIC_ROOT_PATH = ${beside}` : ""}

[database]
DB_TYPE = sqlite3

[security]
INSTALL_LOCK = true
SECRET_KEY = ${randomBytes(24).toString("hex")}
; What is kept here lives as long as the run: a cheap hash makes every call with a password faster.
PASSWORD_HASH_ALGO = pbkdf2_v1

[webhook]
ALLOWED_HOST_LIST = loopback, private

[queue]
; In memory: the default, on disk, is polled with a pause that grows to two seconds.
TYPE = channel

[log]
MODE = console
LEVEL = warn

[repository]
DEFAULT_BRANCH = main

[cron.update_checker]
ENABLED = false

[service]
DISABLE_REGISTRATION = true
`;
}
