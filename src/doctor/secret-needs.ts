/** The Secrets that a deployment refers to, and the keys that they must have. Pure. */
import { z } from "zod";

export interface SecretNeed {
  /** Field of the resource that refers to the Secret. */
  readonly field: string;
  readonly secretName: string;
  /** Describes what is missing among these keys; `undefined` if nothing is. */
  readonly missing: (keys: readonly string[]) => string | undefined;
}

const Reference = z.object({ name: z.string().min(1) });
const Logins = z.array(z.object({ secretRef: Reference }).optional().catch(undefined)).catch([]);
const nothing = { git: [], oci: [], helm: [] };

const Spec = z.object({
  source: z
    .object({ secretRef: Reference.optional().catch(undefined), credentials: Logins })
    .catch({ credentials: [] }),
  credentials: z.object({ git: Logins, oci: Logins, helm: Logins }).catch(nothing),
  decryption: z.object({ secretRef: Reference }).optional().catch(undefined),
});

export function secretNeeds(spec: unknown): readonly SecretNeed[] {
  const { data } = Spec.safeParse(spec);
  if (data === undefined) return [];
  const { source, credentials, decryption } = data;
  const needs = (field: string, reference: z.output<typeof Reference> | undefined, missing: SecretNeed["missing"]) =>
    reference === undefined ? [] : [{ field, secretName: reference.name, missing }];
  const ofList = (field: string, list: z.output<typeof Logins>, missing: SecretNeed["missing"]) =>
    list.flatMap((entry, index) => needs(`${field}[${index}]`, entry?.secretRef, missing));
  return [
    ...(["git", "oci", "helm"] as const).flatMap((kind) =>
      ofList(`spec.credentials.${kind}`, credentials[kind], loginKeys[kind]),
    ),
    ...needs("spec.source.secretRef", source.secretRef, loginKeys.git),
    ...ofList("spec.source.credentials", source.credentials, loginKeys.git),
    ...needs("spec.decryption", decryption?.secretRef, oneOf(decryptionKeys)),
  ];
}

const loginKeys: Record<"git" | "oci" | "helm", SecretNeed["missing"]> = {
  git: oneOf(["password", "identity"]),
  oci: oneOf(["password", "token", "identityToken", "key", "keyFile", "ca", "caFile", "plainHttp"]),
  helm: oneOf(["password", "key", "keyFile", "ca", "caFile", "insecure", "insecureSkipTlsVerify"]),
};

const decryptionKeys = ["*.agekey", "*.asc", "sops.aws-kms", "sops.azure-kv", "sops.gcp-kms", "sops.vault-token"];

/** A pattern is a name, or `*` followed by a suffix. */
function oneOf(patterns: readonly string[]): SecretNeed["missing"] {
  return (keys) => {
    const there = keys.some((key) =>
      patterns.some((pattern) => (pattern.startsWith("*") ? key.endsWith(pattern.slice(1)) : key === pattern)),
    );
    if (there) return undefined;
    return patterns.length === 1 ? `has no key ${patterns.join()}` : `has none of the keys ${patterns.join(", ")}`;
  };
}
