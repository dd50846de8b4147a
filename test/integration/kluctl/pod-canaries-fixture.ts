/**
 * Runs both canary branches with one setting in a process of its own: `node pod-canaries-fixture.ts <setting> <deps as
 * JSON>`.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { examineMachine } from "../../../src/app/isolation.ts";
import { type CanaryDeps, type SettingName, settings, tryCanaries } from "../../support/canaries.ts";

const [name, text = ""] = argv.slice(2);
const deps = JSON.parse(text) as CanaryDeps;

/** The rights and ids of the process itself. */
function examineSelf() {
  const status = readFileSync("/proc/self/status", "utf8");
  const line = (field: string) => new RegExp(`^${field}:\\s*(\\S+)`, "m").exec(status)?.[1];
  let root = "writable";
  try {
    writeFileSync("/towline-written", "");
  } catch (error) {
    root = (error as NodeJS.ErrnoException).code ?? "";
  }
  const [capabilities, noNewPrivileges, seccomp, uid] = ["CapEff", "NoNewPrivs", "Seccomp", "Uid"].map(line);
  return { root, capabilities, noNewPrivileges, seccomp, uid };
}

const { missing } = await examineMachine("required", deps.dir);
const seen = await tryCanaries(settings[name as SettingName], deps);
console.log(JSON.stringify({ seen, missing, self: examineSelf() }));
process.exit(0);
