/**
 * Provides one local world for the whole run. The tests run in processes of their own, so it is offered over HTTP: a
 * part is started when the first test requests it, and a run of a few tests starts only what they need.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { type Addresses, createWorld, type PartName, partNames, partTools } from "../../dev/world.ts";
import { findRunningWorld } from "../../dev/discovery.ts";
import { findTools } from "../../dev/tools.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** URL at which `GET /<part>` returns the addresses of a part. */
    world: string;
    /** The parts are not used after this run, so tests need not clean up in them. */
    worldEnds: boolean;
  }
}

const builtForTests = ["kluctl", "helm", "helm4", "promtool", "actionlint", "towline-flux"] as const;

/** Projects are set up one after the other; the first one stores the world's address here for the next. */
const variable = "TEST_WORLD_URL";

export default async function setUp(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const url = process.env[variable];
  const running = await findRunningWorld();
  project.provide("worldEnds", running === undefined);
  if (url !== undefined) {
    project.provide("world", url);
    return undefined;
  }
  const say = (line: string) => process.stderr.write(`${line}\n`);
  if (running) say(`Using the parts of the running "npm run dev" (process ${running.pid}).`);
  // Build everything now, because the timeout of a test is too short for it.
  else await findTools([...Object.values(partTools).flat(), ...builtForTests], { say });
  // Only some tests need these, and they say so: users who may not install packages can run the others.
  for (const name of ["chromium", "zsh", "fish"] as const)
    await findTools([name], { say }).catch((error: unknown) =>
      say(error instanceof Error ? error.message : String(error)),
    );
  const world = await createWorld({ say });
  const find = (name: PartName): Promise<Addresses[PartName]> | Addresses[PartName] =>
    running?.addresses[name] ?? world.part(name);

  const server = createServer((req, res) => {
    const name = partNames.find((part) => req.url === `/${part}`);
    Promise.resolve(name === undefined ? Promise.reject(new Error(`No such part: ${req.url}`)) : find(name)).then(
      (addresses) => res.end(JSON.stringify(addresses)),
      (error: unknown) => res.writeHead(500).end(error instanceof Error ? error.message : String(error)),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const own = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  process.env[variable] = own;
  project.provide("world", own);

  return async () => {
    delete process.env[variable];
    server.close();
    server.closeAllConnections();
    await world.stop();
  };
}
