/** Gitea's registry, for tests that define what is pushed to one. */
import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestForge } from "./world.ts";

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

export interface ForeignRegistry {
  blob(mediaType: string, content: string): Promise<Descriptor>;
  /** Pushes the manifest of an image or an index, under a tag if one is given. */
  manifest(content: { readonly mediaType: string } & Record<string, unknown>, tag?: string): Promise<Descriptor>;
  /** Returns a reference by digest. */
  reference(of: Descriptor): string;
}

export const oci = "application/vnd.oci.image";

export function useRepository({ login, organization }: TestForge, name: string): ForeignRegistry {
  const at = `${login.url}/v2/${organization}/${name}`;
  const send = async (method: string, url: string, body: string, type: string) => {
    const headers = { authorization: `Basic ${authOf(login)}`, "content-type": type };
    const answer = await fetch(url, { method, body, headers });
    if (!answer.ok) throw new Error(`the registry answered ${answer.status}: ${await answer.text()}`);
  };
  const descriptor = (mediaType: string, content: string): Descriptor => ({
    mediaType,
    digest: `sha256:${createHash("sha256").update(content).digest("hex")}`,
    size: Buffer.byteLength(content),
  });
  return {
    async blob(mediaType, content) {
      const one = descriptor(mediaType, content);
      await send("POST", `${at}/blobs/uploads/?digest=${one.digest}`, content, "application/octet-stream");
      return one;
    },
    async manifest(content, tag) {
      const text = JSON.stringify({ schemaVersion: 2, ...content });
      const one = descriptor(content.mediaType, text);
      await send("PUT", `${at}/manifests/${tag ?? one.digest}`, text, content.mediaType);
      return one;
    },
    reference: ({ digest }) => `${new URL(login.url).host}/${organization}/${name}@${digest}`,
  };
}

/** Pushes an image without layers. */
export async function pushImage(gitea: TestForge, name: string): Promise<string> {
  const repository = useRepository(gitea, name);
  const config = { architecture: "amd64", os: "linux", config: { Labels: { name } } };
  const manifest = {
    mediaType: `${oci}.manifest.v1+json`,
    config: await repository.blob(`${oci}.config.v1+json`, JSON.stringify(config)),
    layers: [],
  };
  return repository.reference(await repository.manifest(manifest, "v1.2.3"));
}

/** Logs in the programs that have this home directory. */
export async function logInto(home: string, { login }: TestForge): Promise<void> {
  await mkdir(join(home, ".docker"));
  const config = { auths: { [new URL(login.url).host]: { auth: authOf(login) } } };
  await writeFile(join(home, ".docker/config.json"), JSON.stringify(config));
}

function authOf({ user, token }: TestForge["login"]): string {
  return Buffer.from(`${user}:${token}`).toString("base64");
}
