/** Where kluctl finds its Python, by version, and how a stand-in comes to be there instead. */
import { chmod, copyFile, link, mkdir, readdir, stat, symlink, truncate, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isSince } from "../version.ts";
import { canBeLight, lightEnvironment, toJailedStandIn, toLightStandIn } from "./light-stand-in.ts";
import { toLauncher, toStandIn } from "./stand-in.ts";

/** Where kluctl unpacks what it brings along. */
export interface Unpacked {
  /** Up to 2.22: its TMPDIR. */
  readonly temporary: string;
  /** Since 2.23: a directory in its cache, which is a link to this one. */
  readonly python: string;
  /** On the same file system: for what is made of links. */
  readonly copies: string;
}

/** What a run of kluctl has to be given, so that it starts the stand-in. */
export interface Ways {
  readonly env: Readonly<Record<string, string>>;
  readonly flags: readonly string[];
}

export interface Layout {
  readonly ways: Ways;
  /** For the fork server; a link with a short name. */
  readonly python: string;
  /** PYTHONHOME of the renderers, where kluctl sets it. */
  readonly home?: string | undefined;
}

export interface LayoutOptions {
  readonly version: string;
  readonly unpacked: Unpacked;
  /** Ours alone, and empty. */
  readonly dir: string;
  /** Makes another one like it, in `unpacked.copies`. */
  readonly createCopy: () => Promise<string>;
  readonly socket: string;
  readonly searchPath: string;
  /** Whether the stand-in is to be the light one; where the machine has what it needs, if left out. */
  readonly light?: boolean | undefined;
  /** For previews: what confines the interpreter where no server takes a renderer. */
  readonly jail?: ((interpreter: string) => string) | undefined;
  /** In place of kluctl's own. */
  readonly interpreter?: string | undefined;
}

/** Throws what people shall read as the reason for cold renderers. */
export async function createLayout(options: LayoutOptions): Promise<Layout> {
  if (isSince(options, 2, 25)) return onSearchPath(options);
  if (!isSince(options, 2, 23)) return inItsPlace(options);
  throw new Error(`kluctl ${options.version} only uses its own Python`);
}

/** Since 2.25 kluctl takes `python3` from PATH if it is told to. The libraries are its own all the same. */
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
 * kluctl 2.22 starts what it has unpacked, and looks only whether each file has its size. So it gets a TMPDIR with a
 * Python of ours: links to the files of its own, but for `bin/python3`. If that is not as kluctl wants it, kluctl unpacks
 * the real one over it.
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

/** The one that was used last: an older kluctl's may lie beside it. kluctl opens the lock beside it each time. */
async function findInterpreter(unpacked: string): Promise<string> {
  const found: { path: string; usedMs: number }[] = [];
  for (const name of await readdir(unpacked)) {
    const bin = join(unpacked, name, "bin"); // maybe through a link, which a pattern would not follow
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

/** What an image has unpacked lies on another file system, and belongs to another user: that is copied. */
async function linkFile(from: string, to: string): Promise<void> {
  await link(from, to).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "EXDEV" && error.code !== "EPERM") throw error;
    await copyFile(from, to);
  });
}
