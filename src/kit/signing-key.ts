/** Keys of the Standard Webhooks specification: `whsec_` and 24 to 64 bytes in base64. Pure. */
const [fewestBytes, mostBytes] = [24, 64];

/** Returns `undefined` for anything else. */
export function parseSigningKey(text: string): Buffer | undefined {
  const [, base64] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? [];
  const key = Buffer.from(base64 ?? "", "base64");
  return key.length >= fewestBytes && key.length <= mostBytes ? key : undefined;
}
