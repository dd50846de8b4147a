/** `npm run test:cluster`: tests the chart and the command line in a cluster whose pods really run. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parseArgs, promisify } from "node:util";
import type { Inside } from "./cluster/inside.ts";
import { nodeTools } from "./cluster/node.ts";
import { findTools, installPackage } from "./tools.ts";

const help = `npm run test:cluster [-- options] [FILE …]

Starts a real cluster (API server, kubelet, containerd, kube-proxy, DNS) in its own network, process and mount namespaces, and runs
the tests of test/cluster in it: Helm installs the chart, with pods of the real image. Needs Linux and root. Everything is removed at
the end. Without --image, the image is built as \`npm run test:image\` does.

  --image NAME   Test this image: an image of the running Docker engine, or a file written by \`docker save\`
  --run COMMAND  Run COMMAND in a shell instead, with kubectl, helm and kluctl, and the images that the chart names
  --help         Show this help
`;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { image: { type: "string" }, run: { type: "string" }, help: { type: "boolean", default: false } },
});

const root = join(import.meta.dirname, "..");
const run = promisify(execFile);
const say = (line: string) => void process.stderr.write(`${line}\n`);

if (options.help) process.stdout.write(help);
else await main();

async function main(): Promise<void> {
  if (process.platform !== "linux" || process.getuid?.() !== 0) throw new Error("The cluster needs Linux and root.");
  await findTools([...nodeTools, "kluctl", "kubectl", "helm", "helm4", "gitea"], { say });
  const cniPlugins = await findCniPlugins();
  const dir = await mkdtemp(join(tmpdir(), "towline-cluster-"));
  try {
    const image = await findImage(join(dir, "image.tar"));
    const command: Inside["command"] =
      options.run === undefined
        ? [process.execPath, "dev/test.ts", "--project", "cluster", ...positionals]
        : ["bash", "-c", options.run];
    process.exitCode = await runInCluster({ stateDir: dir, cniPlugins, image, command });
  } finally {
    await clearAway(dir);
  }
}

/** The plugins are not on the PATH, but in the directories of the distributions. */
async function findCniPlugins(): Promise<string> {
  const places = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];
  const find = async () => {
    for (const place of places) if (await exists(join(place, "ptp"))) return place;
    return undefined;
  };
  const found = await find();
  if (found !== undefined) return found;
  const hint = `Put the plugins of CNI into ${places[0]}.`;
  await installPackage("containernetworking-plugins", hint, say);
  const installed = await find();
  if (installed === undefined) throw new Error(hint);
  return installed;
}

/** Returns the path of an image archive, which is built if none was given. */
async function findImage(file: string): Promise<string> {
  const { image } = options;
  if (image !== undefined && (await exists(image))) return image;
  if (image === undefined) {
    const build = spawn(process.execPath, [join(root, "dev/engine.ts"), "--build", "--save", file], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    const [code] = (await once(build, "exit")) as [number | null];
    if (code !== 0)
      throw new Error(
        "The image could not be built; the output is above. Fix it, or use an existing image with --image.",
      );
  } else await run("docker", ["save", "--output", file, image]);
  return file;
}

async function runInCluster(inside: Inside): Promise<number> {
  const namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const space = ["bash", join(root, "dev/cluster/space.sh"), inside.stateDir];
  const script = [process.execPath, join(root, "dev/cluster/inside.ts"), JSON.stringify(inside)];
  const child = spawn("unshare", [...namespaces, ...space, ...script], { stdio: "inherit", cwd: root });
  // It ignores other signals, and everything in the namespaces ends with it.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => void child.kill("SIGKILL"));
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
}

/** Containers end with their namespace, but their control groups remain and are removed here. */
async function clearAway(dir: string): Promise<void> {
  const script = 'find /sys/fs/cgroup -depth -type d -path "*/$0*" -exec rmdir {} +';
  await run("bash", ["-c", script, basename(dir)]);
  await rm(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
