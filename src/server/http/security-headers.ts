/** What every answer tells a browser: to guess nothing, to frame nothing, to load nothing from elsewhere. */

/** Pages of the server's own have another, which allows their own styles and scripts. */
const NO_CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'";

const always: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
};

export function addSecurityHeaders(headers: Headers, { tls }: { readonly tls: boolean }): void {
  for (const [name, value] of Object.entries(always)) if (!headers.has(name)) headers.set(name, value);
  if (!headers.has('content-security-policy')) headers.set('content-security-policy', NO_CONTENT_POLICY);
  if (!headers.has('cache-control')) headers.set('cache-control', 'no-store');
  if (tls) headers.set('strict-transport-security', 'max-age=31536000');
}
