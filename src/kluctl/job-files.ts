/** The files that a run of kluctl reads and writes. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Run } from "../model.ts";
import type { Call, CallFiles } from "./arguments.ts";
import { withImages, readProjectConfig } from "./project-config.ts";

/** Only `delete` has no project. */
export type AnyRun = Omit<Run, "projectDir"> & Partial<Pick<Run, "projectDir">>;

export interface JobFiles extends CallFiles {
  readonly kubeconfig: string;
}

export interface JobFilesInput {
  readonly dir: string;
  readonly call: Call;
  readonly run: AnyRun;
  readonly kubeconfig: string;
  /** Path → content. */
  readonly others: ReadonlyMap<string, string>;
}

export async function writeJobFiles({ dir, call, run, kubeconfig, others }: JobFilesInput): Promise<JobFiles> {
  const contents = new Map(others);
  const file = (name: string, content: string): string => {
    const path = join(dir, name);
    contents.set(path, content);
    return path;
  };
  const projectDir = run.projectDir ?? join(dir, "empty");
  if (run.projectDir === undefined) {
    await mkdir(projectDir);
    file("empty/deployment.yaml", "deployments: []\n");
  }
  const { images } = run;
  const validates = call.command === "validate";
  const config = validates && images.length > 0 ? withImages(await readProjectConfig(projectDir), run) : undefined;
  const files: JobFiles = {
    projectDir,
    result: join(dir, "result.yaml"),
    kubeconfig: file("kubeconfig", kubeconfig),
    args: run.args && file("args.yaml", JSON.stringify(run.args)),
    images: images.length > 0 && !validates ? file("images.yaml", JSON.stringify({ images })) : undefined,
    projectConfig: config && file("kluctl.yaml", config.text),
    madeUpTarget: config?.madeUpTarget,
  };
  await Promise.all(Array.from(contents, ([path, content]) => writeFile(path, content, { mode: 0o600, flag: "wx" })));
  return files;
}
