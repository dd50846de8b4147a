/** `npm run dev`: starts the local parts, and a server that restarts when a source file changes. Ctrl-C stops everything. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cacheDir } from "./cache.ts";
import { announceWorld } from "./discovery.ts";
import { endOfRun } from "./end-of-run.ts";
import { readOptions } from "./options.ts";
import { buildPage } from "./page-build.ts";
import { freePort } from "./parts/port.ts";
import { startProcess } from "./parts/process.ts";
import { type Addresses, partNames, startWorld } from "./world.ts";
import { findTools } from "./tools.ts";

const root = join(import.meta.dirname, "..");
const help = `npm run dev [-- options]

Starts a Kubernetes control plane, Redis, Gitea and a server that restarts when a source file changes, until Ctrl-C.

  --no-server   Start everything except the server
  --state DIR   Create the state directory in DIR instead of /tmp
  --help        Show this help
`;
const flags = readOptions({ state: { type: "string" }, "no-server": { type: "boolean", default: false } }, help);

const say = (line: string) => process.stderr.write(`${line}\n`);
const end = endOfRun();
let up = false;
end.addEventListener("abort", () => up || process.exit(130)); // everything started up to now ends with this process
const { kluctl, kubectl } = await findTools(["kluctl", "kubectl"], { say });
const world = await startWorld(partNames, { say, stateParent: flags.state });
const addresses = world.addresses as Addresses;
let forget = async (): Promise<void> => undefined;
try {
  forget = await announceWorld({ pid: process.pid, addresses });
  if (!flags["no-server"]) await buildPage();
  const server = await writeServerConfig(addresses, world.stateDir);
  up = true;
  process.stdout.write(describe(addresses, server, kubectl));
  if (flags["no-server"]) await once(end, "abort");
  else await runServer(join(world.stateDir, "towline.yaml"));
} finally {
  await forget();
  await world.stop();
}

/**
 * Writes the configuration and returns its path. The server's own namespace separates it from the servers of a test run
 * that uses the same parts.
 */
async function writeServerConfig({ controlPlane, redis, gitea }: Addresses, stateDir: string): Promise<string> {
  const [port, adminPort, pagePort] = [await freePort(), await freePort(), await freePort()];
  const token = randomBytes(18).toString("base64url");
  const secret = randomBytes(24).toString("hex");
  await mkdir(join(stateDir, "server"), { recursive: true });
  const config = {
    forges: [
      { id: "gitea", kind: "gitea", apiUrl: `${gitea.url}/api/v1`, webhookSecrets: [secret], token: gitea.token },
    ],
    webhooks: { host: "127.0.0.1", port },
    admin: { host: "127.0.0.1", port: adminPort },
    page: {
      host: "127.0.0.1",
      port: pagePort,
      publicUrl: `http://127.0.0.1:${pagePort}`,
      token,
      tokenRole: "operator",
      actAs: "server",
    },
    preview: { enabled: true, isolation: "auto" }, // as far as this kernel supports it; only the developer can push here
    dataDir: join(stateDir, "server"),
    redis: { url: redis.url },
    kubernetes: { kubeconfig: controlPlane.kubeconfig, namespaces: ["default"] },
    kluctl: { path: kluctl, cacheDir: join(cacheDir(), "kluctl") },
  };
  await writeFile(join(stateDir, "towline.yaml"), JSON.stringify(config, undefined, 2), { mode: 0o600 });
  return `webhooks   http://127.0.0.1:${port}/webhooks/gitea   secret ${secret}
  the page   http://127.0.0.1:${pagePort}   token ${token}`;
}

function describe({ controlPlane, redis, gitea }: Addresses, server: string, kubectl: string): string {
  return `
  Redis      ${redis.url}
  Gitea      ${gitea.url}   user ${gitea.user}, token ${gitea.token}
  ${server}
  cluster    export KUBECONFIG=${controlPlane.kubeconfig}
             ${kubectl} get kluctldeployments   (the server serves those of namespace "default")
  state      ${world.stateDir}

`;
}

/** Resolves when the run is to end, after the server has had time to stop. */
async function runServer(config: string): Promise<void> {
  // Without explicit paths, Node also watches the temporary directory, because a module was looked up there: the server
  // would restart whenever a file is written there.
  const watched = ["src", "routes", "jobs"].map((dir) => `--watch-path=${join(root, dir)}`);
  const args = [...watched, "--watch-preserve-output", join(root, "src", "cli.ts"), "serve", "--config", config];
  const server = await startProcess({ name: "towline", command: process.execPath, args, cwd: root });
  await Promise.race([once(end, "abort"), server.exited]);
  await server.stop(60_000);
}
