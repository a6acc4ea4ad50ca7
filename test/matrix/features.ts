/** The nine features, in words. */

export const features = {
  F1: 'deps are configured in storage before a session',
  F2: 'syncDepsOnStart installs them',
  F3: 'list always works',
  F4: 'add is blocked where packages are locked',
  F5: 'remove is blocked where packages are locked',
  F6: 'sync is allowed where packages are locked',
  F7: 'nothing gets around the lock',
  F8: 'import works after sync',
  F9: 'deps survive across sessions and storage instances',
} as const;

export type Feature = keyof typeof features;
