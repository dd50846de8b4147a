/** `npm run test:image`: builds the image with a real Docker engine, and runs the tests of test/image against it. */
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { parseArgs } from "node:util";
import { parseCLI, startVitest } from "vitest/node";
import { cacheDir } from "./cache.ts";
import { countTests, formatCounts } from "./count-tests.ts";
import { endOfRun } from "./end-of-run.ts";
import { baseOfDockerfile, provideBases, provideBothBases } from "./engine/bases.ts";
import { buildImage } from "./engine/build.ts";
import { type Engine, startEngine } from "./engine/daemon.ts";
import { startEmulation } from "./engine/emulation.ts";
import { measure } from "./engine/measure.ts";
import { type Architecture, ownArchitecture } from "./image/release.ts";
import { findTools, type ToolPaths } from "./tools.ts";
import { withLock } from "./tool-build.ts";

const help = `npm run test:image [-- options] [FILE …]

Builds the Dockerfile with Docker, and tests the image and docker-compose.yml against a real API server. Uses the running Docker
engine; if there is none, installs Debian's and starts a private one, which needs root and is stopped at the end. If no registry can
be reached, a private engine builds substitutes for the base images from Debian's packages.
With KLUCTL_SHA256_AMD64 (or _ARM64) set, the image contains kluctl's release; otherwise the kluctl that the tests build.
Ports 3000, 6379, 8080 and 9090 must be free. Takes about three minutes the first time, and one minute after that.

  --private   Start a private engine, even if another one is running
  --build     Only build
  --measure   Also measure the layers, and how fast kluctl starts
  --save FILE Also write the image to FILE, in the format of \`docker load\`
  --image TAG Test an existing image
  --architecture amd64|arm64
              Build for another architecture and emulate its programs: needs root, and takes about 30 minutes the first time
  --help      Show this help
`;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    private: { type: "boolean", default: false },
    build: { type: "boolean", default: false },
    measure: { type: "boolean", default: false },
    save: { type: "string" },
    image: { type: "string" },
    architecture: { type: "string", default: ownArchitecture },
    help: { type: "boolean", default: false },
  },
});

interface Using {
  readonly engine: Engine;
  readonly tools: ToolPaths<"docker-buildx" | "docker-compose">;
  readonly architecture: Architecture;
  readonly say: (line: string) => void;
}

const say = (line: string) => void process.stderr.write(`${line}\n`);
const root = join(import.meta.dirname, "..");

if (options.help) process.stdout.write(help);
else {
  await withLock(join(cacheDir(), "locks", "engine"), "the image", say, main);
  process.exit(); // an aborted test may leave handles open
}

async function main(): Promise<void> {
  const architecture = toArchitecture(options.architecture);
  const ending = endOfRun();
  const tools = await findTools(["docker-buildx", "docker-compose"], { say, env: withPlugins(process.env) });
  const emulation = await startEmulation(architecture, say);
  try {
    const engine = await startEngine({ say, isPrivate: options.private });
    try {
      const ended = new Promise((resolve) => ending.addEventListener("abort", resolve));
      await Promise.race([workWith({ engine, tools, architecture, say }), ended]);
    } finally {
      await engine.stop();
    }
  } finally {
    await emulation.stop();
  }
}

async function workWith(using: Using): Promise<void> {
  const { engine, tools, architecture } = using;
  const isForeign = architecture !== ownArchitecture;
  const tag = options.image ?? (isForeign ? `towline:test-${architecture}` : "towline:test");
  const standIns = await provideBases(using);
  if (options.image === undefined) {
    const both = isForeign ? await provideBothBases(using) : undefined;
    try {
      const base = both?.name ?? standIns.get(await baseOfDockerfile());
      await buildImage({ ...using, tag, base });
    } finally {
      await both?.stop();
    }
  }
  if (options.save !== undefined) await engine.docker("save", "--output", options.save, tag);
  if (options.measure) await measure(engine, tag, architecture);
  if (!options.build) {
    process.env["TEST_STAND_INS"] = JSON.stringify(Object.fromEntries(standIns));
    await test(tag, architecture, tools["docker-compose"], engine.env);
  }
  if (standIns.size > 0) say(`substitutes: ${[...standIns.values()].join(", ")}`);
}

/** Adds Docker's plugins, such as buildx and compose, from the directories in which its packages install them. */
function withPlugins(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const folders = ["/usr/libexec/docker", "/usr/lib/docker", "/usr/local/lib/docker", join(homedir(), ".docker")];
  const plugins = folders.map((folder) => join(folder, "cli-plugins"));
  return { ...env, PATH: [env["PATH"], ...plugins].join(delimiter) };
}

function toArchitecture(text: string): Architecture {
  if (text !== "amd64" && text !== "arm64")
    throw new Error(`--architecture: "${text}" is not supported; use amd64 or arm64`);
  return text;
}

async function test(image: string, architecture: string, compose: string, env: NodeJS.ProcessEnv): Promise<void> {
  // For the tests, which run in processes of their own.
  const isForeign = architecture !== ownArchitecture;
  Object.assign(process.env, env, { TEST_IMAGE: image, TEST_ARCHITECTURE: architecture, TEST_DOCKER_COMPOSE: compose });
  if (isForeign) process.env["TEST_EMULATED"] = "yes";
  const { filter, options: chosen } = parseCLI(["vitest", "run", "--project", "image", ...positionals]);
  const vitest = await startVitest(filter, { root, ...chosen });
  const counts = countTests(vitest.state.getTestModules(), vitest.state.getUnhandledErrors());
  await vitest.close();
  if (counts.failed > 0 || counts.passed === 0) process.exitCode = 1;
  process.stdout.write(`\n${formatCounts(counts)}\n`);
}
