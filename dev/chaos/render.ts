/**
 * Renders the subset of kluctl's project format that the harness deploys; used by the model kluctl and by the checker.
 * Pure.
 */
import { createHash } from "node:crypto";
import { posix } from "node:path";
import { parse } from "yaml";

/** The files of one commit, path → content. */
export type Tree = ReadonlyMap<string, string>;

export interface ConfigMap {
  readonly apiVersion: "v1";
  readonly kind: "ConfigMap";
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly data: Readonly<Record<string, string>>;
}

export interface Project {
  readonly tree: Tree;
  /** Directory of the project in the tree. */
  readonly path: string;
  /** Returns the current files of another repository that the project includes. */
  readonly included: (url: string) => Tree;
}

export interface Rendered {
  readonly discriminator: string;
  /** `deployment` in kluctl's result. */
  readonly config: LevelConfig;
  readonly objects: readonly ConfigMap[];
}

/** A project that cannot be rendered. */
export class RenderError extends Error {
  override name = "RenderError";
}

/** The label by which kluctl finds the objects of a deployment. */
export const discriminatorLabel = "kluctl.io/discriminator";

interface Level {
  readonly vars?: readonly { readonly git: { readonly url: string; readonly path: string } }[];
  readonly deployments?: readonly Item[];
}

interface Item {
  readonly path?: string;
  readonly barrier?: boolean;
  readonly include?: string;
  readonly git?: { readonly url: string; readonly subDir: string };
}

interface LevelConfig {
  readonly vars?: readonly object[];
  readonly deployments: readonly object[];
}

type Vars = Readonly<Record<string, string>>;

export function renderProject(project: Project): Rendered {
  const { tree, path } = project;
  const { discriminator } = read<{ discriminator: string }>(tree, posix.join(path, ".kluctl.yaml"), {});
  const { config, objects } = renderLevel(project, tree, path, {});
  const labelled = objects.map(({ metadata, ...rest }) => {
    const labels = { ...metadata.labels, [discriminatorLabel]: discriminator };
    return { ...rest, metadata: { ...metadata, labels } };
  });
  return { discriminator, config, objects: labelled };
}

/** Returns a hash that identifies the rendered objects. */
export function hashOf(objects: readonly ConfigMap[]): string {
  return createHash("sha256").update(JSON.stringify(objects)).digest("hex");
}

/** As in kluctl, a level does not see its own variables; the levels and items that it includes do. */
function renderLevel(project: Project, tree: Tree, dir: string, vars: Vars) {
  const level = read<Level>(tree, posix.join(dir, "deployment.yaml"), vars);
  const inner = { ...vars };
  for (const { git } of level.vars ?? []) Object.assign(inner, read<Vars>(project.included(git.url), git.path, vars));
  const objects: ConfigMap[] = [];
  const deployments = (level.deployments ?? []).map((item): object => {
    if (item.path !== undefined) {
      const found = renderItem(tree, posix.join(dir, item.path), inner);
      objects.push(...found);
      return { path: item.path, renderedObjects: found.map(refOf) };
    }
    if (item.barrier) return { barrier: true };
    const sub = item.git
      ? renderLevel(project, project.included(item.git.url), item.git.subDir, inner)
      : renderLevel(project, tree, posix.join(dir, item.include ?? ""), inner);
    objects.push(...sub.objects);
    return { ...item, renderedInclude: sub.config };
  });
  const config: LevelConfig = { ...(level.vars && { vars: level.vars }), deployments };
  return { config, objects };
}

function renderItem(tree: Tree, dir: string, vars: Vars): ConfigMap[] {
  const files = [...tree.keys()].filter((path) => posix.dirname(path) === dir && path.endsWith(".yml"));
  if (files.length === 0) throw new RenderError(`${dir} does not exist`);
  return files.toSorted().map((path) => read<ConfigMap>(tree, path, vars));
}

export function refOf({ kind, metadata: { name, namespace } }: ConfigMap) {
  return { version: "v1", kind, name, namespace };
}

function read<T>(tree: Tree, path: string, vars: Vars): T {
  const text = tree.get(path);
  if (text === undefined) throw new RenderError(`open ${path}: no such file or directory`);
  const filled = text.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name: string) => {
    const value = vars[name];
    if (value === undefined) throw new RenderError(`template ${path} failed: '${name}' is undefined`);
    return value;
  });
  try {
    return parse(filled) as T;
  } catch {
    throw new RenderError(`failed to load ${path}: it is not YAML`);
  }
}
