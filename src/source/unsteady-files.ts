/**
 * Searches the files of a project for anything that may render differently although the project is unchanged: clocks,
 * random numbers, and data from elsewhere. It errs on the safe side: anything that only looks like it counts.
 */
import { lstat, readdir, readFile, realpath } from "node:fs/promises";
import { join, relative } from "node:path";
import type { UnsteadyFiles } from "../model.ts";
import { codeOf, hasUnsteadyWords, isUnsteadyCode, mayBecomeParent, mayLeadOutside } from "../model/template-code.ts";
import { findTemplatedResource } from "./kustomization.ts";

/** A larger project is not searched and counts as unsteady. */
const mostFiles = 10_000;
const mostBytes = 64 * 1024 * 1024;
const atOnce = 16;

/** Conditions are template code without braces. */
const condition = /\bwhen["']?\s*:/;
/** Functions of Go templates, in Helm charts, that read the cluster or a clock, or generate random numbers or keys. */
const unsteadyHelm =
  /(?<![.\w$"'-])(?:lookup|now|ago|rand\w+|shuffle|uuidv4|gen(?:CA|PrivateKey|SelfSignedCert|SignedCert)\w*|htpasswd|bcrypt|encryptAES|getHostByName)\b/;
/** Charts that are pulled during rendering; kluctl's result shows only the last one of an item. */
const pulledChart = /^\s*["']?(?:git|skipPrePull)["']?\s*:/m;
/** Resources that kustomize fetches. */
const remoteResource = /\/\/|\w@(?!sha256:)\w|\bgithub\.com\b|\bgh:|[?&]ref=|helmCharts?\b|helmGlobals\b/;

/**
 * Searches a checkout or one directory in it; a directory that does not exist has nothing unsteady. Besides kluctl's
 * own files, which are found by their names, a project only reads files outside of its directory that one of its files
 * names.
 */
export async function findUnsteadyFiles(root: string, path: string, signal?: AbortSignal): Promise<UnsteadyFiles> {
  const top = join(root, path);
  const real = await realpath(top).catch(ignoreMissing);
  if (real === undefined) return {};
  if (real !== join(await realpath(root), path)) return { templates: `${path} is a link` };
  const files = await listFiles(top, signal);
  if (typeof files === "string") return { templates: files };
  let templates: string | undefined;
  let charts: string | undefined;
  let outside: string | undefined;
  const left = files.values();
  const work = async () => {
    for (const file of left) {
      if (templates !== undefined) return;
      signal?.throwIfAborted();
      const name = relative(root, file);
      if (/\.(?:tgz|tar\.gz)$/.test(name)) {
        charts ??= `${name} is packed`;
        continue;
      }
      const text = await readFile(file, "latin1");
      const code = codeOf(text);
      templates ??= whyUnsteady(name, text, code);
      if (unsteadyHelm.test(code)) charts ??= `${name} may read the cluster, a clock or random numbers`;
      if (/(?:^|\/)helm-chart\.ya?ml$/i.test(name) && pulledChart.test(text))
        charts ??= `${name} does not belong to a chart in the project`;
      if (mayLeadOutside(text) || mayBecomeParent(code)) outside ??= `${name} may reference files outside the project`;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return { templates, charts, outside };
}

function whyUnsteady(name: string, text: string, code: string): string | undefined {
  if (isUnsteadyCode(code)) return `${name} may read a clock or random numbers`;
  if (condition.test(text) && hasUnsteadyWords(text)) return `${name} may have a condition that depends on time`;
  if (!/(?:^|\/)kustomization(?:\.ya?ml)?$/i.test(name)) return undefined;
  if (remoteResource.test(text)) return `${name} may reference files outside the project`;
  const line = findTemplatedResource(text);
  return line && `${name} has a template that may reference files outside the project: ${line}`;
}

/** Lists all files except git's own, or returns the reason why they cannot all be searched. */
async function listFiles(root: string, signal: AbortSignal | undefined): Promise<readonly string[] | string> {
  const files: string[] = [];
  const directories = [root];
  let bytes = 0;
  for (let directory = directories.pop(); directory !== undefined; directory = directories.pop()) {
    signal?.throwIfAborted();
    for (const entry of await readdir(directory, { withFileTypes: true })) {
      const path = join(directory, entry.name);
      if (entry.name === ".git") continue;
      if (entry.isDirectory()) directories.push(path);
      else if (entry.isSymbolicLink()) return `${relative(root, path)} is a link`;
      else if (entry.isFile()) {
        files.push(path);
        bytes += (await lstat(path)).size;
      }
      if (bytes > mostBytes) return `the project has more than ${mostBytes / 1024 ** 2} MiB`;
      if (files.length > mostFiles) return `the project has more than ${mostFiles} files`;
    }
  }
  return files;
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT" && error.code !== "ENOTDIR") throw error;
}
