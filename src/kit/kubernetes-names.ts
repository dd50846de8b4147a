/** Which names Kubernetes accepts. Pure. */

const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;

/** Of a namespace (RFC 1123 label). */
export function isNamespaceName(text: string): boolean {
  return text.length <= 63 && label.test(text);
}

/** Of nearly all objects (RFC 1123 subdomain). */
export function isObjectName(text: string): boolean {
  return text.length <= 253 && text.split(".").every((part) => label.test(part));
}
