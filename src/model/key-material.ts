/** Authenticates the source-override service and its clients: PEM texts, and a secret shared between controllers. */
export interface KeyMaterial {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  readonly controllerSecret: Buffer;
}
