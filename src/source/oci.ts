/** OCI artifacts as sources: resolves tags and unpacks artifacts into a directory. */
import { join } from "node:path";
import { createSecureContext } from "node:tls";
import { SourceError } from "../errors.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import type { Limit } from "../kit/limit.ts";
import type { Logger } from "../log.ts";
import { parseOciUrl, type OciName } from "../model/oci-url.ts";
import type { Checkout, OciCheckoutSource, Tag } from "../model.ts";
import { ArchiveError, untarGz } from "../kit/untar.ts";
import { removeDirectory, type WorkDirectories } from "../kit/work-directories.ts";
import type { Lookup } from "../kit/address.ts";
import { parseManifest } from "./artifact.ts";
import { createBlobs } from "./blobs.ts";
import { checkPath, findProject } from "./clone.ts";
import { markRoot } from "../model/git-marker.ts";
import { createHosts } from "./hosts.ts";
import { type Connections, createConnections, SilenceError } from "./http.ts";
import { type RegistryRequest, explainRegistry } from "./registry-answer.ts";
import { chooseRegistryLogin, describeLogin, loginParts } from "./registry-login.ts";
import { createRegistry, type Registry } from "./registry.ts";
import { readServerRegistryLogins } from "./server-logins.ts";

export interface OciSourcesDeps {
  readonly cacheDir: string;
  readonly log: Logger;
  readonly env: NodeJS.ProcessEnv;
  readonly lookup: Lookup;
  readonly work: WorkDirectories;
  /** Limits how many directories are unpacked at the same time. */
  readonly clones: Limit;
  readonly limits: {
    readonly callsPerHost: number;
    readonly silenceMs: number;
    readonly callMs: number;
  };
  /** Returns the name of a folder for the blobs that a login may read. */
  readonly idOf: (parts: readonly unknown[]) => Promise<string>;
}

export interface OciSources {
  checkout(source: OciCheckoutSource, signal: AbortSignal): Promise<Checkout>;
  tag(source: OciCheckoutSource, signal: AbortSignal): Promise<Tag>;
  /** Removes blobs that were not used for this long; returns how many. */
  sweep(idleMs: number): Promise<number>;
}

/** Limits of the unpacked tar: more than any real project needs, and less than a disk. */
const unpackLimits = { bytes: 2 * 1024 ** 3, entries: 100_000 };

/** Number of tags. */
const mostRemembered = 10_000;

interface Conversation {
  readonly asked: RegistryRequest & { readonly name: OciName };
  readonly registry: Registry;
  readonly reference: string;
  readonly signal: AbortSignal;
}

export function createOciSources(deps: OciSourcesDeps): OciSources {
  const { log, env, limits } = deps;
  const hosts = createHosts({ callsPerHost: limits.callsPerHost, now: () => performance.now() });
  const blobs = createBlobs(join(deps.cacheDir, "oci"));
  /** Tag → digest at the last checkout. */
  const checkedOut = createBoundedMap<string>({ entries: mostRemembered });

  async function toAsked({ url, ref, credentials }: OciCheckoutSource): Promise<Conversation["asked"]> {
    const name = parseOciUrl(url);
    if (name === undefined) throw new SourceError("refused", "the URL is not oci://registry/repository");
    const login = chooseRegistryLogin(name, [...credentials, ...(await readServerRegistryLogins(env))]);
    const { tag = "latest", digest } = ref;
    const label = `${name.registry}/${name.repository}${digest ? `@${digest}` : `:${tag}`}`;
    return { name, login, label, reference: digest ? `digest ${digest}` : `tag ${tag}` };
  }

  function connect({ name, login }: Conversation["asked"]): Connections {
    const { cert, key } = login ?? {};
    const client = cert && key ? { cert, key } : undefined;
    const ca = login?.ca || undefined;
    try {
      createSecureContext({ ca, ...client });
    } catch (cause) {
      throw new SourceError("unauthorized", `cert, key or ca cannot be read (${describeLogin(login)})`, { cause });
    }
    return createConnections({
      lookup: deps.lookup,
      env,
      silenceMs: limits.silenceMs,
      ca,
      client: client && { host: name.registry, ...client },
      rejectUnauthorized: !login?.insecureSkipTlsVerify,
    });
  }

  async function converse<T>(
    asked: Conversation["asked"],
    reference: string,
    caller: AbortSignal,
    use: (conversation: Conversation) => Promise<T>,
  ): Promise<T> {
    const { name, login } = asked;
    const connections = connect(asked);
    const timeout = AbortSignal.timeout(limits.callMs);
    const signal = AbortSignal.any([caller, timeout]);
    const registry = createRegistry({ name, login, connections, signal });
    const isSilence = (error: unknown) => error instanceof SilenceError;
    try {
      const talk = () => use({ asked, registry, reference, signal });
      return await hosts.talk(name.registry, talk, { signal: caller, quick: false, isSilence });
    } catch (error) {
      throw timeout.aborted ? new SilenceError() : error;
    } finally {
      connections.close();
    }
  }

  async function fetch({ asked, registry, reference, signal }: Conversation) {
    const { artifact, first } = await readArtifact(registry, reference);
    const { name, login } = asked;
    const folder = await deps.idOf([name.registry, name.repository, ...loginParts(login)]);
    const { layer } = artifact;
    return { artifact, first, file: await blobs.open(folder, layer, () => registry.blob(layer.digest), signal) };
  }

  async function open(asked: Conversation["asked"], source: OciCheckoutSource, signal: AbortSignal): Promise<Checkout> {
    const { tag = "latest", digest = tag } = source.ref;
    const { artifact, file, first } = await converse(asked, digest, signal, fetch);
    let root: string | undefined;
    try {
      const made = (root = await deps.work.create());
      await deps.clones.run(() => untarGz(file.createReadStream(), made, unpackLimits, signal), { signal });
      const projectDir = await findProject(made, source.path);
      if (source.path !== "") await markRoot(made);
      log.debug({ artifact: asked.label, digest: artifact.digest, commit: artifact.commit }, "pulled");
      checkedOut.set(asked.label, first);
      return {
        root: made,
        projectDir,
        commit: artifact.commit ?? "",
        madeFrom: artifact.ref,
        release: () => release(made),
      };
    } catch (error) {
      await file.close();
      if (root !== undefined) await removeDirectory(root);
      throw error;
    }
  }

  /** Never fails: the work is done by then, and a remaining directory is swept at the next start. */
  async function release(root: string): Promise<void> {
    await removeDirectory(root).catch((err: unknown) => log.warn({ err, root }, "could not remove a checkout"));
  }

  async function explained<T>(
    source: OciCheckoutSource,
    signal: AbortSignal,
    use: (asked: Conversation["asked"]) => Promise<T>,
  ): Promise<T> {
    const asked = await toAsked(source);
    try {
      return await use(asked);
    } catch (error) {
      signal.throwIfAborted(); // a caller that was cancelled gets its own reason back
      throw explainRegistry(error instanceof ArchiveError ? toRefusal(error) : error, asked);
    }
  }

  return {
    async checkout(source, signal) {
      checkPath(source.path);
      return explained(source, signal, (asked) => open(asked, source, signal));
    },

    async tag(source, signal) {
      const { tag = "latest" } = source.ref;
      const ask = ({ registry, reference }: Conversation) => registry.digest(reference);
      return explained(source, signal, async (asked) => ({
        digest: await converse(asked, tag, signal, ask),
        checkedOut: checkedOut.get(asked.label),
      }));
    },

    sweep: (idleMs) => blobs.sweep(idleMs),
  };
}

function toRefusal({ message }: ArchiveError): SourceError {
  return new SourceError("refused", `cannot unpack the artifact: ${message}`);
}

/** `first`: the digest that the reference itself resolves to, which may be an index's. */
async function readArtifact(registry: Registry, reference: string) {
  const { digest: first, bytes } = await registry.manifest(reference);
  const artifact = parseManifest(bytes);
  if (!("instead" in artifact)) return { artifact: { ...artifact, digest: first }, first };
  const chosen = parseManifest((await registry.manifest(artifact.instead)).bytes);
  if ("instead" in chosen) throw new SourceError("refused", "a list of manifests references another list");
  return { artifact: { ...chosen, digest: artifact.instead }, first };
}
