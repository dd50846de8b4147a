/** Where kluctl finds its Python, by version, and how the stand-in takes its place. */
import { chmod, copyFile, link, mkdir, readdir, stat, symlink, truncate, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isSince } from "../version.ts";
import { canBeLight, lightEnvironment, toJailedStandIn, toLightStandIn } from "./light-stand-in.ts";
import { toLauncher, toStandIn } from "./stand-in.ts";

/** Where kluctl unpacks the files that it embeds. */
export interface Unpacked {
  /** Up to 2.22: kluctl's TMPDIR. */
  readonly temporary: string;
  /** Since 2.23: a directory in kluctl's cache, which is a link to this one. */
  readonly python: string;
  /** For trees of hard links, so it has to be on the same file system. */
  readonly copies: string;
}

/** The variables and flags with which kluctl starts the stand-in. */
export interface Ways {
  readonly env: Readonly<Record<string, string>>;
  readonly flags: readonly string[];
}

export interface Layout {
  readonly ways: Ways;
  /** Interpreter for the fork server; a link with a short name. */
  readonly python: string;
  /** PYTHONHOME of the renderers, if kluctl sets it. */
  readonly home?: string | undefined;
}

export interface LayoutOptions {
  readonly version: string;
  readonly unpacked: Unpacked;
  /** An empty directory that only we use. */
  readonly dir: string;
  /** Creates another empty directory, in `unpacked.copies`. */
  readonly createCopy: () => Promise<string>;
  readonly socket: string;
  readonly searchPath: string;
  /** Whether to use the light stand-in; by default if the machine has what it needs. */
  readonly light?: boolean | undefined;
  /** For previews: returns the jail for an interpreter that starts because no fork server accepts the renderer. */
  readonly jail?: ((interpreter: string) => string) | undefined;
  /** Replaces kluctl's own interpreter. */
  readonly interpreter?: string | undefined;
}

/** Throws an error whose message tells users why renderers start cold. */
export async function createLayout(options: LayoutOptions): Promise<Layout> {
  if (isSince(options, 2, 25)) return onSearchPath(options);
  if (!isSince(options, 2, 23)) return inItsPlace(options);
  throw new Error(`kluctl ${options.version} only uses its own Python`);
}

/** Since 2.25, with a flag, kluctl takes `python3` from PATH. It still uses its own libraries. */
async function onSearchPath(options: LayoutOptions): Promise<Layout> {
  const { dir, socket, unpacked, searchPath, light, jail } = options;
  const interpreter = options.interpreter ?? (await findInterpreter(unpacked.python));
  const bin = join(dir, "bin");
  await mkdir(bin);
  const { python, env } = await writeStandIn(join(bin, "python3"), {
    dir,
    socket,
    interpreter,
    renderersIn: "/go-embed-jinja2/",
    light,
    jail,
    foreign: options.interpreter !== undefined,
  });
  return { python, ways: { env: { ...env, PATH: `${bin}:${searchPath}` }, flags: ["--use-system-python"] } };
}

/**
 * kluctl 2.22 starts the Python that it has unpacked, and checks only that each file has the expected size. So it gets
 * a TMPDIR with a copy of that Python, made of links to the original files, except for `bin/python3`. If kluctl finds a
 * size that differs, it unpacks the original over the copy.
 */
async function inItsPlace(options: LayoutOptions): Promise<Layout> {
  const { dir, createCopy, socket, unpacked, light, jail } = options;
  const found = await findInterpreter(unpacked.temporary);
  const original = dirname(dirname(found));
  const temporary = await createCopy();
  const home = join(temporary, basename(original));
  await linkTree(original, home, "bin/python3");
  const launcher = join(home, "bin/python3");
  const interpreter = options.interpreter ?? join(home, "bin", basename(found));
  const foreign = options.interpreter !== undefined;
  const { python, env } = await writeStandIn(launcher, {
    dir,
    socket,
    interpreter,
    renderersIn: "",
    light,
    jail,
    foreign,
  });
  await truncate(launcher, (await stat(join(original, "bin/python3"))).size);
  return { python, home, ways: { env: { ...env, TMPDIR: temporary }, flags: [] } };
}

interface StandInOptions {
  readonly dir: string;
  readonly socket: string;
  readonly interpreter: string;
  readonly renderersIn: string;
  readonly light: boolean | undefined;
  readonly jail: LayoutOptions["jail"];
  readonly foreign: boolean;
}

async function writeStandIn(launcher: string, { dir, socket, interpreter, renderersIn, ...wanted }: StandInOptions) {
  const python = join(dir, "python");
  await symlink(interpreter, python);
  const places = { socket, python, renderersIn };
  const { jail } = wanted;
  const light = jail !== undefined || (wanted.light ?? (await canBeLight()));
  const text = jail
    ? toJailedStandIn({ ...places, jail: jail(interpreter), foreign: wanted.foreign })
    : toLightStandIn(places);
  await writeFile(launcher, light ? text : toLauncher(python), { flag: "wx" });
  await chmod(launcher, 0o700);
  if (!light) await writeFile(`${launcher}.py`, toStandIn(places));
  return { python, env: light ? lightEnvironment : {} };
}

/**
 * Finds the interpreter that was used last, because one of an older kluctl may be there too. kluctl opens the lock file
 * next to it each time it is used.
 */
async function findInterpreter(unpacked: string): Promise<string> {
  const found: { path: string; usedMs: number }[] = [];
  for (const name of await readdir(unpacked)) {
    const bin = join(unpacked, name, "bin"); // may be a symbolic link, which a glob would not follow
    const interpreter = (await readdir(bin).catch(() => [])).find((file) => /^python3\.\d+$/.test(file));
    const lock = await stat(join(unpacked, `${name}.lock`)).catch(() => undefined);
    if (interpreter && lock) found.push({ path: join(bin, interpreter), usedMs: lock.mtimeMs });
  }
  const [last] = found.toSorted((a, b) => b.usedMs - a.usedMs);
  if (last === undefined) throw new Error(`kluctl has not unpacked a Python in ${unpacked}`);
  return last.path;
}

async function linkTree(from: string, to: string, without: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const entry of await readdir(from, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(from.length + 1);
    if (entry.isDirectory()) await mkdir(join(to, name), { recursive: true });
    else if (entry.isFile() && name !== without) await linkFile(path, join(to, name));
  }
}

/** Files that were unpacked into an image are on another file system and belong to another user; those are copied. */
async function linkFile(from: string, to: string): Promise<void> {
  await link(from, to).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "EXDEV" && error.code !== "EPERM") throw error;
    await copyFile(from, to);
  });
}
