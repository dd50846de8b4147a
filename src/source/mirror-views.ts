/** What a mirror has, and what the remote has shown of it to each login. */
import { hash } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { type BoundedMap, createBoundedMap } from "../kit/bounded-map.ts";
import { createLimit, type Limit } from "../kit/limit.ts";
import type { Heads } from "../model.ts";
import type { Git } from "./git.ts";
import type { Reader, Remote } from "./remote.ts";
import { parseTips, tipsFormat } from "./tips.ts";

export interface Mirror {
  readonly path: string;
  readonly lock: Limit;
  readonly views: Map<string, View>;
  /**
   * Incremented whenever the mirror is discarded, so that callers that find it damaged at the same time discard it only
   * once.
   */
  generation: number;
}

/** What the remote has shown to one login. */
export interface View {
  readonly mirror: Mirror;
  readonly id: string;
  /** The name of its namespace, and of its marker. */
  readonly login: string;
  /** Commits known to be among them; saves asking git again. */
  readonly shown: BoundedMap<true>;
  /** Whether this process has fetched with this login, and so knows all of its tips. */
  fetched: boolean;
  /** Hash of all refs after the last fetch. */
  tips: string | undefined;
  state: number;
}

export interface MirrorViewsDeps {
  readonly directory: string;
  readonly git: Git;
  readonly readerOf: (remote: Remote) => Promise<Reader>;
}

export interface MirrorViews {
  open(id: string): Mirror;
  viewFor(remote: Remote): Promise<View>;
  /** Runs git in the mirror, without the network. */
  inMirror(mirror: Pick<Mirror, "path">, ...args: readonly string[]): Promise<string>;
  has(mirror: Mirror, commit: string): Promise<boolean>;
  /** Whether the mirror has the commit, and a ref that the remote has shown to this login leads to it. */
  shows(view: View, commit: string): Promise<boolean>;
  /**
   * Whether the view has the commit. After a fetch, git is not asked, because an unknown commit was most likely just
   * pushed and is missing; an unnecessary fetch is harmless.
   */
  mayShow(view: View, commit: string): Promise<boolean>;
  /** Call after a fetch: the commits that branches and tags point to are now in the mirror. */
  rememberTips(view: View): Promise<Heads | undefined>;
}

/** The weight with which a caller has a mirror to itself. */
export const exclusive = 1_000_000;
const shownKept = 1_000;

export function createMirrorViews({ directory, git, readerOf }: MirrorViewsDeps): MirrorViews {
  const mirrors = new Map<string, Mirror>();

  function open(id: string): Mirror {
    const mirror = mirrors.get(id) ?? {
      path: join(directory, id),
      lock: createLimit(exclusive),
      views: new Map<string, View>(),
      generation: 0,
    };
    mirrors.set(id, mirror);
    return mirror;
  }

  async function viewFor(remote: Remote): Promise<View> {
    const { id, mirror: name, login } = await readerOf(remote);
    const mirror = open(name);
    const view = mirror.views.get(login) ?? {
      mirror,
      id,
      login,
      shown: createBoundedMap<true>({ entries: shownKept }),
      fetched: false,
      tips: undefined,
      state: 0,
    };
    mirror.views.set(login, view);
    return view;
  }

  async function inMirror({ path }: Mirror, ...args: readonly string[]): Promise<string> {
    return git(args, { at: { gitDir: path }, protocols: [] });
  }

  async function has(mirror: Mirror, commit: string): Promise<boolean> {
    if (!(await exists(mirror.path))) return false;
    return (await inMirror(mirror, "cat-file", "-t", commit).catch(() => "")).trim() === "commit";
  }

  async function shows(view: View, commit: string): Promise<boolean> {
    const { mirror, shown } = view;
    if (shown.get(commit)) return true;
    if (!(await has(mirror, commit))) return false;
    const beyond = await inMirror(mirror, "rev-list", "--max-count=1", commit, "--not", `--glob=${refsOf(view.login)}`);
    if (beyond === "") shown.set(commit, true);
    return beyond === "";
  }

  async function mayShow(view: View, commit: string): Promise<boolean> {
    return view.fetched ? view.shown.get(commit) === true : shows(view, commit);
  }

  async function rememberTips(view: View): Promise<Heads | undefined> {
    const printed = await inMirror(view.mirror, "for-each-ref", tipsFormat, refsOf(view.login));
    const { commits, heads } = parseTips(printed);
    const tips = hash("sha256", printed);
    if (view.tips !== tips) view.state++;
    view.tips = tips;
    for (const commit of commits.slice(-shownKept / 2)) view.shown.set(commit, true);
    view.fetched = true;
    return heads;
  }

  return { open, viewFor, inMirror, has, shows, mayShow, rememberTips };
}

/** The directory that git keeps the refs of a namespace in. */
export function refsOf(login: string): string {
  return `refs/namespaces/${login}`;
}

/** The file that exists while the mirror has refs of the login; its time says when they were last used. */
export function markerOf({ mirror, login }: Pick<View, "mirror" | "login">): string {
  return join(mirror.path, "logins", login);
}

/** Forgets what is known about the mirror's content. */
export function forget(view: View): void {
  view.state++;
  view.shown.clear();
  view.fetched = false;
  view.tips = undefined;
}

export async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
