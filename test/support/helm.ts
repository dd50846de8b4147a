/** The real Helm and our chart, against the world's API server. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { parseAllDocuments, stringify } from "yaml";
import { writeFile } from "node:fs/promises";
import { findTools } from "../../dev/tools.ts";
import { uniqueName, useTempDir } from "./world.ts";

export const chartDir = join(import.meta.dirname, "../../chart");

export interface Rendered {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [key: string]: unknown;
}

export type Values = Readonly<Record<string, unknown>>;

export interface Helm {
  readonly namespace: string;
  /** Throws with Helm's output if it fails. */
  run(...args: readonly string[]): Promise<string>;
  /** Renders what would be installed, without contacting the cluster. */
  template(release: string, values?: Values, ...more: readonly string[]): Promise<Rendered[]>;
  /**
   * Installs the chart, waits until it is ready and returns the output (NOTES). It is uninstalled when the test ends,
   * if it is still installed.
   */
  install(release: string, values?: Values, ...more: readonly string[]): Promise<string>;
  upgrade(release: string, values?: Values, ...more: readonly string[]): Promise<string>;
  uninstall(release: string): Promise<string>;
}

export interface HelmOptions {
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly version?: "helm" | "helm4";
}

const run = promisify(execFile);

export async function useHelm({ kubeconfig, namespace, version = "helm" }: HelmOptions): Promise<Helm> {
  const [{ [version]: program }, dir] = await Promise.all([
    findTools([version], { say: () => undefined }),
    useTempDir(),
  ]);
  const env = {
    PATH: process.env["PATH"],
    HOME: dir, // Helm caches what it discovers of a cluster in it
    KUBECONFIG: kubeconfig,
    HELM_CACHE_HOME: join(dir, "cache"),
    HELM_CONFIG_HOME: join(dir, "config"),
    HELM_DATA_HOME: join(dir, "data"),
  };

  const helm = async (...args: readonly string[]): Promise<string> => {
    try {
      const { stdout } = await run(program, [...args, "--namespace", namespace], { env, maxBuffer: 64 * 1024 * 1024 });
      return stdout;
    } catch (error) {
      const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
      throw new Error(`helm ${args[0]}: ${stderr}${stdout}`, { cause: error });
    }
  };
  const valuesFile = async (values: Values): Promise<string> => {
    const path = join(dir, `${uniqueName("values")}.yaml`);
    await writeFile(path, stringify(values, { version: "1.1" }));
    return path;
  };
  const uninstall = (release: string) => helm("uninstall", release, "--ignore-not-found");

  return {
    namespace,
    run: helm,
    async template(release, values = {}, ...more) {
      const text = await helm("template", release, chartDir, "--values", await valuesFile(values), ...more);
      return parseAllDocuments(text, { version: "1.1" })
        .map((document) => document.toJS() as Rendered | null)
        .filter((object) => object !== null);
    },
    async install(release, values = {}, ...more) {
      onTestFinished(async () => void (await uninstall(release)));
      const wait = ["--wait", "--timeout", "3m"];
      return helm("install", release, chartDir, "--values", await valuesFile(values), ...wait, ...more);
    },
    async upgrade(release, values = {}, ...more) {
      const wait = ["--wait", "--timeout", "3m"];
      return helm("upgrade", release, chartDir, "--values", await valuesFile(values), ...wait, ...more);
    },
    uninstall,
  };
}
