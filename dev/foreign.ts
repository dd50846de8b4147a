/** `npm run test:foreign`: the documentation's commands of other programs, by the real programs. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { findTools } from "./tools.ts";

const help = `npm run test:foreign [-- FILE …]

Runs what the documentation has people type of flux, argocd, cosign and docker buildx: with Flux's controllers, a whole Argo CD and a real
registry, against a real API server. The programs are built from Go modules the first time, which takes some 20 minutes.
`;

const args = process.argv.slice(2);
if (args.includes("--help")) process.stdout.write(help);
else {
  // No test's time-out is running yet.
  await findTools(["flux", "kustomize-controller", "helm-controller", "argocd", "cosign", "docker-buildx"], {
    say: (line) => void process.stderr.write(`${line}\n`),
  });
  const child = spawn(process.execPath, [join(import.meta.dirname, "test.ts"), "--project", "foreign", ...args], {
    stdio: "inherit",
    env: { ...process.env, TEST_FOREIGN: "1" },
  });
  const [code] = (await once(child, "exit")) as [number | null];
  process.exitCode = code ?? 1;
}
