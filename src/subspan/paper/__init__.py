"""The paper's laboratory: published values, reproduced tables and pictures. The product does not import it."""
