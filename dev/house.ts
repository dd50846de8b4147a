/**
 * The rooms of the code and which of them may import which. dependency-cruiser cannot read our sources (it needs the
 * API of an older TypeScript), and the linter's import rules match the text of an import, not the file it resolves to:
 * hence this check.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix, relative } from "node:path";

interface Room {
  readonly name: string;
  readonly files: RegExp;
  /** Names of rooms; a room may always import itself. */
  readonly mayImport: readonly string[] | "anything";
}

const ground = ["kit", "ground"];
const decisions = [...ground, "ports", "decisions"];
const house = [
  ...decisions,
  "skipping",
  "metrics",
  "jail",
  "kluctl",
  "source",
  "starter",
  "kube",
  "apis",
  "redis",
  "overrides",
  "api-proxy",
  "egress-proxy",
  "preview-runner",
  "stub-decryption",
  "flux rendering",
  "forges",
  "notifiers",
  "a notifier",
  "login",
  "doctor",
  "routes",
  "web",
  "jobs",
];

/** A file belongs to the first room whose pattern matches; a file without a room is a violation too. */
const rooms: readonly Room[] = [
  // Knows nothing of this product.
  { name: "kit", files: /^src\/kit\//, mayImport: [] },
  {
    name: "ground",
    files: /^src\/(?:errors\.ts|(?:model|config|log)(?:\.ts|\/)|redact\/|machine\/)/,
    mayImport: ["kit"],
  },
  { name: "ports", files: /^src\/ports(?:\.ts$|\/)/, mayImport: ground },
  // The adapter among the parts for Flux: starts the program that renders.
  { name: "flux rendering", files: /^src\/flux\/rendering\//, mayImport: [...ground, "ports", "jail"] },
  {
    name: "decisions",
    files: /^src\/(?:intake|reconcile|requests|guards|access|views|preview|comment|reporting|flux)\//,
    mayImport: decisions,
  },
  // Wraps reconciliations; nothing but the top may depend on it.
  { name: "skipping", files: /^src\/skipping\//, mayImport: decisions },
  { name: "metrics", files: /^src\/metrics(?:\.ts$|\/)/, mayImport: ground },
  { name: "jail", files: /^src\/jail\//, mayImport: [] },
  { name: "kluctl", files: /^src\/kluctl\//, mayImport: [...ground, "ports", "jail"] },
  { name: "source", files: /^src\/source\//, mayImport: [...ground, "ports"] },
  // Starts processes for those two rooms.
  { name: "starter", files: /^src\/starter\//, mayImport: [...ground, "ports", "kluctl", "source"] },
  { name: "kube", files: /^src\/kube\//, mayImport: [...ground, "ports"] },
  // A folder for each kind of custom resource that becomes a deployment.
  { name: "apis", files: /^src\/apis\//, mayImport: [...ground, "ports", "kube"] },
  { name: "redis", files: /^src\/redis\//, mayImport: [...ground, "ports"] },
  { name: "overrides", files: /^src\/overrides\//, mayImport: [...ground, "ports"] },
  { name: "api-proxy", files: /^src\/api-proxy\//, mayImport: [...ground, "ports"] },
  { name: "egress-proxy", files: /^src\/egress-proxy\//, mayImport: ground },
  { name: "preview-runner", files: /^src\/preview-runner\//, mayImport: [...ground, "ports"] },
  { name: "stub-decryption", files: /^src\/stub-decryption\//, mayImport: ground },
  { name: "forges", files: /^src\/forge\/[^/]+\.ts$/, mayImport: [...ground, "ports", "a forge"] },
  { name: "a forge", files: /^src\/forge\/[^/]+\//, mayImport: [...ground, "ports", "forges"] },
  { name: "notifiers", files: /^src\/notify\/[^/]+\.ts$/, mayImport: [...ground, "ports", "a notifier"] },
  { name: "a notifier", files: /^src\/notify\/[^/]+\//, mayImport: [...ground, "ports", "notifiers"] },
  { name: "login", files: /^src\/login\//, mayImport: [...ground, "ports"] },
  { name: "doctor", files: /^src\/doctor\//, mayImport: [...decisions, "kube", "apis"] },
  { name: "routes", files: /^routes\//, mayImport: [...decisions, "forges"] },
  { name: "web", files: /^src\/web\//, mayImport: [...decisions, "routes"] },
  // Runs in a browser: of the server, it knows only the shapes of the data it receives.
  { name: "the page", files: /^ui\//, mayImport: [...ground, "decisions", "web"] },
  { name: "jobs", files: /^jobs\//, mayImport: [...decisions, "redis"] },
  // Loads the demo when it is requested; no other part of the server knows it.
  { name: "the command", files: /^src\/cli\.ts$/, mayImport: [...house, "the top", "dev"] },
  { name: "the top", files: /^src\/(?:app|cli)(?:\.ts|\/)/, mayImport: house },
  { name: "dev", files: /^dev\//, mayImport: [...house, "the top"] },
  { name: "tests", files: /^(?:test\/|[^/]+\.config\.ts$)/, mayImport: "anything" },
];

/** Packages that only some rooms may import, so that replacing one affects only these rooms. */
const packages: Readonly<Record<string, readonly string[]>> = {
  bullmq: ["jobs"],
  ioredis: ["redis", "jobs", "the top"],
  express: ["routes", "web", "the top"],
  helmet: ["web"],
  "express-rate-limit": ["web"],
  preact: ["the page"],
  commander: ["the top"],
  pino: ["ground"],
  "simple-git": ["source"],
  "@kubernetes/client-node": ["kube"],
  "@grpc/grpc-js": ["overrides"],
  "openid-client": ["login"],
  jose: ["login"],
  "@octokit/webhooks": ["forges", "a forge"],
  "@gitbeaker/rest": ["forges", "a forge"],
  "@octokit/core": ["a forge"],
  "@octokit/auth-app": ["a forge"],
  nodemailer: ["a notifier"],
  "prom-client": ["metrics", "routes"],
  "@opentelemetry/api": ["ground", "the top"],
};

/** Rooms with several instances: each folder is a room of its own. */
const divided: ReadonlySet<string> = new Set(["a forge", "a notifier"]);

const imported = /^\s*(?:import|export)\b[^;"']*?\bfrom\s+"([^"]+)"|^\s*import\s+"([^"]+)"|\bimport\(\s*"([^"]+)"/gm;

const exportedType = /^export (?:type|interface|(?:abstract )?class|enum) (\w+)/gm;

/** Returns every violation below the root as `file: what is wrong`. */
export function checkHouse(root: string): string[] {
  const homes = new Map<string, string>();
  return sourceFiles(root).flatMap((file) => {
    const room = findRoom(file);
    if (room === undefined) return [`${file}: belongs to no room, see dev/house.ts`];
    const text = readFileSync(join(root, file), "utf8");
    const wrong = [...text.matchAll(imported)].flatMap(([, from, effect, lazy]) =>
      explain(file, room, from ?? effect ?? lazy ?? ""),
    );
    // A shell would interpret input from outside as commands.
    if (room.name !== "tests" && /\bshell:\s*(?!false)\S/.test(text)) wrong.push("runs a shell");
    if (file.startsWith("src/")) wrong.push(...explainNames(file, text, homes));
    return wrong.map((what) => `${file}: ${what}`);
  });
}

function explain(file: string, room: Room, specifier: string): string[] {
  if (room.mayImport === "anything" || specifier.startsWith("node:")) return [];
  if (!specifier.startsWith(".")) {
    const owners = packages[specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/")];
    const allowed = owners === undefined || owners.includes(room.name) || room.name === "dev";
    return allowed ? [] : [`(${room.name}) imports ${specifier}, which only ${owners.join(" and ")} may`];
  }
  const target = posix.join(posix.dirname(file), specifier);
  if (target === "package.json") return [];
  const other = findRoom(target);
  if (other === undefined) return [`imports ${target}, which belongs to no room`];
  const same =
    other.name === room.name && (!divided.has(room.name) || posix.dirname(target).startsWith(posix.dirname(file)));
  return same || room.mayImport.includes(other.name) ? [] : [`(${room.name}) imports ${target} (${other.name})`];
}

/** One name means one thing: no two exported types of the server share a name. Adds the file's types to `homes`. */
function explainNames(file: string, text: string, homes: Map<string, string>): string[] {
  return [...text.matchAll(exportedType)].flatMap(([, name = ""]) => {
    const home = homes.get(name);
    if (home === undefined) homes.set(name, file);
    return home === undefined ? [] : [`exports the type ${name}, as ${home} does; rename one of them`];
  });
}

function findRoom(file: string): Room | undefined {
  return rooms.find(({ files }) => files.test(file));
}

function sourceFiles(root: string): string[] {
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !/(?:^|\/)(?:node_modules|dist|coverage|fixtures)\//.test(file));
}
