/** Reads the parts of an OCI artifact's manifest that we use. Pure. */
import { z } from "zod";
import { SourceError } from "../errors.ts";
import { parseJson } from "../kit/json.ts";
import type { GitRef } from "../model.ts";
import { isDigest } from "../model/oci-url.ts";

export interface Layer {
  readonly digest: string;
  /** Compressed size in bytes. */
  readonly size: number;
}

export interface Artifact {
  readonly layer: Layer;
  /** The git commit it was made from, if kluctl pushed it. */
  readonly commit?: string | undefined;
  readonly ref?: GitRef | undefined;
}

const Digest = z.string().refine(isDigest);
const Manifest = z.object({
  layers: z.array(z.object({ digest: Digest, size: z.number().int().min(0) })),
  annotations: z.record(z.string(), z.string()).nullish(),
});
const Index = z.object({
  manifests: z.array(
    z.object({
      digest: Digest,
      platform: z.object({ os: z.string(), architecture: z.string() }).nullish(),
    }),
  ),
});

/** Annotation in which `kluctl oci push` describes the working copy that it pushed. */
const gitInfoAnnotation = "io.kluctl.image.git_info";
const GitInfo = z.object({
  commit: z
    .string()
    .regex(/^[0-9a-f]{40}(?:[0-9a-f]{24})?$/)
    .optional()
    .catch(undefined),
  ref: z
    .object({ branch: z.string().optional(), tag: z.string().optional(), commit: z.string().optional() })
    .optional()
    .catch(undefined),
});

/**
 * Parses a manifest, whose first layer is the project. For an index, returns in `instead` the digest of the manifest to
 * read.
 */
export function parseManifest(bytes: Buffer): Artifact | { readonly instead: string } {
  const json = parseJson(bytes.toString("utf8"));
  const index = Index.safeParse(json).data;
  if (index !== undefined) return { instead: chooseManifest(index) };
  const manifest = Manifest.safeParse(json).data;
  if (manifest === undefined) throw new SourceError("not-found", "that is not an artifact of an OCI registry");
  const [layer] = manifest.layers;
  if (layer === undefined) throw new SourceError("empty", "the artifact has no layers");
  const { data } = GitInfo.safeParse(parseJson(manifest.annotations?.[gitInfoAnnotation] ?? ""));
  return { layer, commit: data?.commit, ref: data?.ref };
}

/** Chooses like kluctl's registry library: linux/amd64, or a manifest without a platform. */
function chooseManifest({ manifests }: z.output<typeof Index>): string {
  const found = manifests.find(
    ({ platform }) => !platform || (platform.os === "linux" && platform.architecture === "amd64"),
  );
  if (found === undefined) throw new SourceError("empty", "none of the artifact's manifests is for linux/amd64");
  return found.digest;
}
