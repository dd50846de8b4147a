/**
 * A server that deploys once while holding a lease, as a separate process that a test can freeze or kill: `node
 * fake-kluctl-server.ts <directory> <kluctl> <kubeconfig> <project> <silence in ms>`. Prints the result.
 */
import { readFileSync } from "node:fs";
import { argv } from "node:process";
import { fakeHeld, newKluctl, newRun, noDeployOptions } from "./fake-kluctl.ts";

const [here = "", binary = "", kubeconfig = "", projectDir = "", silence = ""] = argv.slice(2);
const leaseSilenceMs = Number(silence);
const kluctl = newKluctl(here, {
  binary,
  kubeconfigFor: () => readFileSync(kubeconfig, "utf8"),
  limits: { leaseSilenceMs },
});
const held = fakeHeld();
const renewals = setInterval(held.renew, leaseSilenceMs / 4);
try {
  await kluctl.deploy(newRun({ projectDir, held }), noDeployOptions, new AbortController().signal);
  console.log("deployed");
} catch (error) {
  console.log(String(error));
}
clearInterval(renewals);
