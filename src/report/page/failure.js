window.addEventListener('error', (event) => {
  document.documentElement.dataset.error = event.message;
  const banner = document.getElementById('failure');
  if (!banner) return;
  banner.hidden = false;
  banner.textContent = `This page failed to draw: ${event.message}`;
});
