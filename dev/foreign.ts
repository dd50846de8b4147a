/** `npm run test:foreign`: runs the documentation's commands of other programs with the real programs. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { findTools } from "./tools.ts";

const help = `npm run test:foreign [-- FILE …]

Runs the documentation's commands of flux, argocd, cosign and docker buildx, with Flux's controllers, a complete Argo CD and a real
registry, against a real API server, and Towline beside Flux's controllers. The first run builds these programs from Go modules, which
takes about 25 minutes.
`;

const programs = [
  "flux",
  "source-controller",
  "kustomize-controller",
  "helm-controller",
  "argocd",
  "cosign",
  "docker-buildx",
  "towline-flux",
] as const;

const args = process.argv.slice(2);
if (args.includes("--help")) process.stdout.write(help);
else {
  // Built here, because the timeout of a test is too short for it.
  await findTools(programs, { say: (line) => void process.stderr.write(`${line}\n`) });
  const child = spawn(process.execPath, [join(import.meta.dirname, "test.ts"), "--project", "foreign", ...args], {
    stdio: "inherit",
    env: { ...process.env, TEST_FOREIGN: "1" },
  });
  const [code] = (await once(child, "exit")) as [number | null];
  process.exitCode = code ?? 1;
}
